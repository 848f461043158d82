"""The options that several benches share, each written once, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="complete, edit, extract, chat or maths; repeatable. All of them."),
]
Datasets = Annotated[
    list[Path] | None,
    typer.Option(
        "--dataset",
        help="A file of HumanEval, of Spec-Bench, or of lines with kind and prompt; repeatable. "
        "Its prompts come before Paceline's own.",
    ),
]
PromptsPerKind = Annotated[int, typer.Option(min=1, help="The first so many of each kind.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few minutes: 2 turns of 48 tokens.")]
QUICK_TURNS, QUICK_TOKENS = 2, 48


def prompts_of(given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Kind -> its prompts: the data sets' and, where they have too few, Paceline's own."""
    from paceline.bench.workloads import KINDS, by_kind, dataset_tasks, own_tasks

    tasks = [task for path in given["dataset"] or [] for task in dataset_tasks(path)]
    return by_kind([*tasks, *own_tasks()], given["kind"] or KINDS, given["prompts_per_kind"])


def size_of(given: Mapping[str, Any]) -> tuple[int, int]:
    """Turns, and tokens of each text; few of both where it is to be quick."""
    turns, tokens = given["turns"], given["max_tokens"]
    return (
        (min(turns, QUICK_TURNS), min(tokens, QUICK_TOKENS)) if given["quick"] else (turns, tokens)
    )
