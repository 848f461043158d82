"""`paceline theory`: the throughput formulas and the exactness demo."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from paceline.plan.theory import render, render_exact
from paceline.plan.theory import theory as compute


def theory(
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print when speculation pays, exactly, and that it keeps the target's law."""
    if json_output:
        typer.echo(json.dumps(dataclasses.asdict(compute())))
    else:
        typer.echo(f"{render()}\n{render_exact()}", nl=False)
