"""What a bench found, told: on the terminal, as JSON, as Markdown and as a figure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.files import write_whole

if TYPE_CHECKING:
    from paceline.bench.setting import BenchReport, Setting
    from paceline.engine import LLM


def drawable(path: Path | None) -> Path | None:
    """A path that a figure can be drawn to, known before anything is measured."""
    if path is not None and path.suffix != ".png":
        raise typer.BadParameter(f"it draws a .png, not {path}.")
    if path is not None and find_spec("matplotlib") is None:
        raise typer.BadParameter("it needs matplotlib; install paceline[plots].")
    return path


Markdown = Annotated[
    Path | None, typer.Option("--markdown", help="Write the report to a file, too.")
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", callback=drawable, help="Draw it to a .png file; needs matplotlib."),
]


def command_line() -> str:
    """The command that runs."""
    return shlex.join(["paceline", *sys.argv[1:]])


def setting_of(llm: LLM) -> Setting:
    """What stands above the figures."""
    from paceline.bench.setting import Setting

    return Setting.of(llm, command_line())


def tell(report: BenchReport, given: Mapping[str, Any]) -> None:
    """Show it, write it where that is wanted; a finding that fails exits with 1."""
    if given["markdown"]:
        write_whole(given["markdown"], report.as_markdown().encode())
    if given.get("plot"):
        from paceline.bench.charts import write_charts

        write_charts(given["plot"], report)
    print(json.dumps(report.as_record())) if given["as_json"] else show(report)
    if not all(finding.holds for finding in report.findings):
        raise typer.Exit(1)


def show(report: BenchReport) -> None:
    """The setting, the tables, the findings."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for line in report.setting.lines():
        console.print(line, markup=False)
    for one in report.tables:
        table = Table(*one.header, title=one.title)
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
    for note in report.notes:
        console.print(note, markup=False)
    for finding in report.findings:
        console.print(str(finding), style="" if finding.holds else "bold red", markup=False)
