"""The options several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.config import MAX_THREADS
from paceline.types import AUTO

MODEL, RESULT = "Model and speculation", "Input and output"

Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="Alias, folder, GGUF file or hub id.", rich_help_panel=MODEL
    ),
]
Draft = Annotated[
    list[str] | None,
    typer.Option(
        "--draft",
        "-d",
        help="NAME, NAME:ARG, NAME:ARG:key=value, or the path of a drafter's .py file; repeatable. "
        "The model mini drafts with its own draft model unless told otherwise.",
        rich_help_panel=MODEL,
    ),
]
Beams = Annotated[
    int | None,
    typer.Option(
        "--beams",
        min=1,
        help="Find so many best continuations by beam search, with their scores.",
        rich_help_panel=RESULT,
    ),
]


def named_of(ctx: typer.Context) -> set[str]:
    """The options that the command line names, whatever it gives them."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def length(text: str) -> int | str:
    """A draft length; raises BadParameter."""
    if text == AUTO:
        return AUTO
    try:
        k = int(text)
    except ValueError:
        k = -1
    if k < 0:
        raise typer.BadParameter(f"it must be a number >= 0 or '{AUTO}', not '{text}'.")
    return k


def schedule(text: str) -> tuple[tuple[int, int], ...]:
    """1:8,16:2,32:0 as pairs (requests, tokens), 8 as ((1, 8),); raises BadParameter."""
    try:
        whole = text if ":" in text else f"1:{text}"
        pairs = [part.split(":") for part in whole.split(",")]
        return tuple((int(requests), int(k)) for requests, k in pairs)
    except ValueError as error:
        raise typer.BadParameter(
            f"it must be a number or pairs of requests and tokens (1:8,16:2,32:0), not '{text}'."
        ) from error


K = Annotated[
    Any,
    typer.Option(
        "--k",
        parser=length,
        metavar="N|auto",
        help="Tokens to draft per pass; auto: drafter and length as they pay, step by step. "
        "Drafters that are named without a k draft by auto.",
        rich_help_panel=MODEL,
    ),
]
MaxK = Annotated[
    Any,
    typer.Option(
        "--max-k",
        parser=schedule,
        metavar="N|B:N,…",
        help="Most tokens to draft per pass, or most from so many requests on: 1:8,16:2,32:0.",
        rich_help_panel=MODEL,
    ),
]
Plan = Annotated[
    str | None,
    typer.Option(
        "--plan", help="plan.json of `paceline plan`: what it measured.", rich_help_panel=MODEL
    ),
]
Rule = Annotated[
    str | None,
    typer.Option("--rule", help="Verification rule.", rich_help_panel=MODEL),
]
Dtype = Annotated[
    str,
    typer.Option("--dtype", help="auto, float32 or bfloat16.", rich_help_panel=MODEL),
]
Device = Annotated[str, typer.Option("--device", help="cpu or cuda.", rich_help_panel=MODEL)]
Kernels = Annotated[
    str,
    typer.Option(
        "--kernels",
        help="torch; native: the compiled library, on a CPU; auto: native where it can be.",
        rich_help_panel=MODEL,
    ),
]
Quantize = Annotated[
    str | None,
    typer.Option(
        "--quantize",
        help="int4 or int8; matrices stay as they are stored by default.",
        rich_help_panel=MODEL,
    ),
]
KVDtype = Annotated[
    str,
    typer.Option(
        "--kv-dtype",
        help="Of keys and values: auto, float32, float16, bfloat16 or int8.",
        rich_help_panel=MODEL,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        max=MAX_THREADS,
        help="CPU threads; all by default.",
        rich_help_panel=MODEL,
    ),
]
MaxModelLen = Annotated[
    int | None,
    typer.Option(
        "--max-model-len",
        min=1,
        help="Context in tokens; the model's by default. A shorter one needs less memory.",
        rich_help_panel=MODEL,
    ),
]

PromptFile = Annotated[
    Path | None,
    typer.Option(
        "--prompt-file",
        help="Read the prompt from a file, not from standard input.",
        rich_help_panel=RESULT,
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        help="Run every prompt of a file: lines of text, or .jsonl (.gz too) with prompt, turns or "
        "messages. generate prints a line of JSON for each, in the file's order.",
        rich_help_panel=RESULT,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch", min=1, help="Prompts of --prompts to run at once.", rich_help_panel=RESULT
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, help="Take only the first prompts of --prompts.", rich_help_panel=RESULT
    ),
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Send the prompt as it is, without the model's chat template.",
        rich_help_panel=RESULT,
    ),
]
Color = Annotated[
    bool,
    typer.Option("--color", help="Show accepted draft tokens in green.", rich_help_panel=RESULT),
]
Stats = Annotated[
    bool,
    typer.Option(
        "--stats", help="Print a table of counts and times to stderr.", rich_help_panel=RESULT
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object.", rich_help_panel=RESULT),
]
