"""`paceline doctor --model M --draft D`: whether the pair goes together, and what it is worth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import defaults
from paceline.cli.progress import byte_bar
from paceline.cli.session import load

if TYPE_CHECKING:
    from paceline.bench.pair import PairFinding


def examine(given: Mapping[str, Any]) -> list[PairFinding]:
    """Each drafter against the target's files, then, where they go together, at work."""
    from paceline.bench.pair import compare
    from paceline.drafters import parse_drafter
    from paceline.models import describe

    drafts = defaults.drafts_of(given["model"], given["draft"])
    found: list[PairFinding] = []
    with byte_bar() as report:
        target = describe(given["model"], report)
        for text in drafts:
            # Only drafters that are models of their own have files to compare.
            model = getattr(parse_drafter(text), "model", None)
            if isinstance(model, str):
                found += compare(target, describe(model, report), free_bytes())
    if all(finding.works for finding in found):
        found += at_work(given, drafts)
    return found


def at_work(given: Mapping[str, Any], drafts: tuple[str, ...]) -> list[PairFinding]:
    """Ten seconds of each drafter, with its option string before what was found."""
    from dataclasses import replace

    from paceline.bench.pair import measure_pair
    from paceline.bench.workloads import KINDS, by_kind, ids_of, own_tasks

    settings: Any = {} if given["threads"] is None else {"threads": given["threads"]}
    llm = load(given["model"], list(drafts), 1, **settings)
    tasks = by_kind(own_tasks(), KINDS, 1)
    prompts = [ids_of(llm, kind, prompt) for kind, (prompt,) in tasks.items()]
    findings = [(text, measure_pair(llm, text, prompts).finding) for text in drafts]
    return [replace(one, what=f"{one.what}, {text}") for text, one in findings]


def free_bytes() -> int:
    """Memory that is free for use; 0 where the system does not tell."""
    status = Path("/proc/meminfo")
    if not status.exists():
        return 0
    found = re.search(r"MemAvailable:\s+(\d+) kB", status.read_text())
    return int(found[1]) << 10 if found else 0
