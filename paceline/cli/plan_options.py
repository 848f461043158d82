"""The options of `paceline plan`, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PAPER, LOAD = "On paper", "Requests over time, on paper"
LONGEST = 1024
"""The longest draft that is planned for or replayed."""
MOST_CONTEXT = 2**30

Batches = Annotated[str, typer.Option("--batch", help="Batch sizes.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="A folder for plan.json, the figures and a page.")
]
Device = Annotated[
    str | None,
    typer.Option(
        "--simulate",
        help="No model is loaded: h100, a100, l4, rtx-4090, m4-max, …",
        rich_help_panel=PAPER,
    ),
]
TargetParams = Annotated[
    str | None, typer.Option(help="Parameters of the target: 7B, 7e9.", rich_help_panel=PAPER)
]
DraftParams = Annotated[
    str, typer.Option(help="Of the draft; 0 for lookups.", rich_help_panel=PAPER)
]
TargetBits = Annotated[float, typer.Option(help="Bits of a target weight.", rich_help_panel=PAPER)]
DraftBits = Annotated[float, typer.Option(help="Bits of a draft weight.", rich_help_panel=PAPER)]
Alpha = Annotated[
    list[float] | None,
    typer.Option(
        help="Acceptance; repeat it for one rate a position. 0.7 by default.",
        rich_help_panel=PAPER,
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        help=r"Recorded drafts to replay: JSON lines of \[proposed, accepted] pairs.",
        rich_help_panel=PAPER,
    ),
]
Context = Annotated[
    int,
    typer.Option(
        min=0, max=MOST_CONTEXT, help="Tokens of context per request.", rich_help_panel=PAPER
    ),
]
KVBytes = Annotated[
    float, typer.Option(help="Keys and values of a context token.", rich_help_panel=PAPER)
]
MaxK = Annotated[
    int,
    typer.Option(min=0, max=LONGEST, help="Longest draft to consider.", rich_help_panel=PAPER),
]
Emit = Annotated[
    str | None,
    typer.Option(
        help="Print it for vllm, sglang, tensorrt-llm or llama.cpp.", rich_help_panel=PAPER
    ),
]
Target = Annotated[str, typer.Option(help="Name of the target, for --emit.", rich_help_panel=PAPER)]
Rate = Annotated[
    float | None, typer.Option(help="Also serve so many requests a second.", rich_help_panel=LOAD)
]
Bursty = Annotated[bool, typer.Option("--bursty", help="In bursts.", rich_help_panel=LOAD)]
Count = Annotated[int, typer.Option(min=1, rich_help_panel=LOAD)]
Seed = Annotated[int, typer.Option(rich_help_panel=LOAD)]
