"""The options of `paceline plan`, each written once."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.errors import ConfigError

PAPER, LOAD = "On paper", "Requests over time, on paper"
EMIT = "For other engines"
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
        help="Print the plan for vllm, sglang, tensorrt-llm or llama.cpp.", rich_help_panel=EMIT
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="The target's name there; --model's by default.", rich_help_panel=EMIT),
]
Rate = Annotated[
    float | None, typer.Option(help="Also serve so many requests a second.", rich_help_panel=LOAD)
]
Bursty = Annotated[bool, typer.Option("--bursty", help="In bursts.", rich_help_panel=LOAD)]
Count = Annotated[int, typer.Option(min=1, rich_help_panel=LOAD)]
Seed = Annotated[int, typer.Option(rich_help_panel=LOAD)]

_HERE = (
    *("model", "prompts", "limit", "raw", "max_tokens", "kernels", "threads", "max_model_len"),
    "out",
)
_LOADED = ("bursty", "requests", "prompt_tokens", "output_tokens", "seed")
_PAPER = (
    *("target_params", "draft_params", "target_bits", "draft_bits", "alpha", "trace", "context"),
    *("kv_bytes", "max_k", "rate", *_LOADED),
)


def refuse_unread(given: Mapping[str, Any], named: Container[str]) -> None:
    """Raise ConfigError for an option that is `named` and would not be read."""
    on_paper, emits = given["device"] is not None, given["emit"] is not None
    unread = {
        "is for measuring here; leave it out, or leave out --simulate": _HERE if on_paper else (),
        "needs --simulate, as without it all is measured here": () if on_paper else _PAPER,
        "needs --rate": _LOADED if given["rate"] is None else (),
        "needs --emit": () if emits else ("target",),
        "names the draft for --emit; with --simulate --draft-params tells its size": (
            ("draft",) if on_paper and not emits else ()
        ),
    }
    for complaint, options in unread.items():
        for option in options:
            if option in named:
                raise ConfigError(f"--{option.replace('_', '-')} {complaint}.")
    if emits and (given["as_json"] or given["rate"] is not None):
        raise ConfigError("--emit prints one engine's own words; leave out --json and --rate.")
