"""`paceline export`: a head in the layout of another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import defaults


def export(
    head: Annotated[Path, typer.Argument(help="Folder of a head.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
    layout: Annotated[str, typer.Option("--format", help="speculators, eagle, medusa; or int8.")],
    target: Annotated[
        str, typer.Option("--target", "-m", help="The model that it drafts for.")
    ] = defaults.MODEL,
) -> None:
    """Write a head as vLLM and SGLang load it, or as ours in a quarter of the bytes."""
    from paceline.models import load_model
    from paceline.train.export import export_head

    export_head(head, load_model(target), layout, out)
    print(out)
