"""The servers that `paceline certify` audits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paceline.cli.progress import total_bar
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.certify.audit import AuditReport, PairReport
    from paceline.certify.endpoint import Endpoint
    from paceline.certify.law import Effort
    from paceline.engine import LLM

KEYS = ("PACELINE_ENDPOINT_KEY", "PACELINE_ENDPOINT_B_KEY")
"""Variables, not options: a certificate shows the command."""


def connected(given: Mapping[str, Any]) -> list[Endpoint]:
    """The servers of --endpoint and --endpoint-b, none, one or two, each asked for its model.

    Raises:
        ConfigError: an option lacks its server.
        EndpointError: a server cannot be used.
    """
    from paceline.certify.endpoint import connect

    for needed, option in (
        ("endpoint", "endpoint_b"),
        ("endpoint", "served_model"),
        ("endpoint_b", "served_model_b"),
    ):
        if given[option] and not given[needed]:
            names = (name.replace("_", "-") for name in (option, needed))
            raise ConfigError("--{} is nothing without --{} URL.".format(*names))
    asked = [
        (given["endpoint"], given["served_model"], os.environ.get(KEYS[0])),
        (given["endpoint_b"], given["served_model_b"], os.environ.get(KEYS[1])),
    ]
    return [connect(url, model, key) for url, model, key in asked if url]


def audited(
    servers: Sequence[Endpoint], llm: LLM | None, effort: Effort
) -> AuditReport | PairReport:
    """One server against the model's law, or two against each other."""
    from paceline.certify.audit import audit, compare
    from paceline.certify.law import PROMPT

    with total_bar("samples") as report:
        if llm and len(servers) == 1:
            return audit(servers[0], llm.model, llm.encode(PROMPT), effort, report)
        a, b = servers
        return compare((a, b), PROMPT, effort, report)
