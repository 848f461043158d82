"""`paceline pull`: fetch models."""

from __future__ import annotations

from typing import Annotated

import typer


def pull(
    names: Annotated[list[str], typer.Argument(help="Aliases of `paceline models`, or hub ids.")],
) -> None:
    """Fetch models, check them and print where they lie."""
    from paceline.cli.progress import byte_bar
    from paceline.models.pull import pull as pull_model

    for name in names:
        with byte_bar() as report:
            path = pull_model(name, progress=report)
        print(path)
