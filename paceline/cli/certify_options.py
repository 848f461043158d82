"""The options of `paceline certify` alone, each written once, and which check reads which."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import options, sampling_options
from paceline.errors import ConfigError

CHECKS = "Checks; the first three quickly where none is named"
SERVERS = "Checks of other servers, by OpenAI's HTTP API"

Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Every rule by enumeration in exact fractions; needs no model.",
        rich_help_panel=CHECKS,
    ),
]
Law = Annotated[
    bool,
    typer.Option(
        "--law",
        help="The law of sampled text against the model's own, by tests of stated power.",
        rich_help_panel=CHECKS,
    ),
]
Parity = Annotated[
    bool,
    typer.Option(
        "--parity",
        help="The same ids with speculation on and off, greedy or seeded.",
        rich_help_panel=CHECKS,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Fewer cases, samples and prompts.", rich_help_panel=CHECKS),
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        min=1000,
        help="Outputs for --law and --endpoint to take, however long it takes.",
        rich_help_panel=CHECKS,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Rule for --law to sample by; by default that of a request without a seed.",
        rich_help_panel=CHECKS,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Write the certificate, in Markdown.", rich_help_panel=options.RESULT
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="Sample from this server and test its text against the exact law of --model. A key is"
        " read from the variable PACELINE_ENDPOINT_KEY.",
        rich_help_panel=SERVERS,
    ),
]
EndpointB = Annotated[
    str | None,
    typer.Option(
        "--endpoint-b",
        metavar="URL",
        help="Test whether both servers have one law; no local model. A key is read from"
        " PACELINE_ENDPOINT_B_KEY.",
        rich_help_panel=SERVERS,
    ),
]
ServedModel = Annotated[
    str | None,
    typer.Option(
        "--served-model",
        help="The server's name of the model; its only one by default.",
        rich_help_panel=SERVERS,
    ),
]
ServedModelB = Annotated[
    str | None,
    typer.Option("--served-model-b", help="The name at --endpoint-b.", rich_help_panel=SERVERS),
]

_LOADED = (
    *("model", "dtype", "device", "kernels", "quantize", "kv_dtype", "threads"),
    "max_model_len",
)
_DRAFTED = (*_LOADED, "draft", "k")
_SAMPLED = (*sampling_options.SETTINGS, "logit_bias", "json_schema")
ALONE, PAIR = "--endpoint alone", "--endpoint-b"
READS: dict[str, tuple[str, ...]] = {
    "--exact": ("quick",),
    "--law": ("quick", "samples", "rule", *_DRAFTED),
    "--parity": ("quick", "prompts", "batch", "limit", "raw", *_DRAFTED, *_SAMPLED),
    ALONE: ("quick", "samples", *_LOADED),
    PAIR: ("quick", "samples"),
}
"""Check -> the options that it reads; --json and --out are the certificate's."""


def refuse_unread(given: Mapping[str, Any], named: Container[str]) -> None:
    """Raise ConfigError where none of the checks reads an option that is `named`."""
    runs = {f"--{name}" for name in ("exact", "law", "parity") if given[name]}
    if given["endpoint"]:
        runs.add(PAIR if given["endpoint_b"] else ALONE)
    for option in (name for name in given if name in named):
        readers = [check for check, read in READS.items() if option in read]
        if readers and runs.isdisjoint(readers):
            flag = f"--{option.replace('_', '-')}"
            raise ConfigError(f"{flag} needs {' or '.join(readers)}; no other check reads it.")
