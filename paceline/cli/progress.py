"""Progress bars: on stderr, and only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


@contextmanager
def byte_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Yield report(done_bytes, total_bytes, what), shown as one bar that vanishes when done."""
    from rich.progress import DownloadColumn

    with bars(DownloadColumn()) as progress:
        task = progress.add_task("", total=None, visible=False)

        def report(done_bytes: int, total_bytes: int, what: str) -> None:
            progress.update(
                task, completed=done_bytes, total=total_bytes, description=what, visible=True
            )

        yield report


@contextmanager
def count_bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Yield report(done), shown as one bar that vanishes when done."""
    from rich.progress import MofNCompleteColumn

    with bars(MofNCompleteColumn()) as progress:
        task = progress.add_task(what, total=total)

        def report(done: int) -> None:
            progress.update(task, completed=done)

        yield report


@contextmanager
def total_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield report(done, total), shown as one bar that vanishes when done."""
    from rich.progress import MofNCompleteColumn

    with bars(MofNCompleteColumn()) as progress:
        task = progress.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report


def note(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr)


def bars(amount: ProgressColumn) -> Progress:
    """A description, a bar and an amount."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
