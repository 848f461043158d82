"""Progress on stderr: a bar on a terminal; elsewhere a line now and then, if it takes long."""

from __future__ import annotations

import sys
import time
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
    """Yield report(done), shown as `total_bar` shows it."""
    with total_bar(what) as report:
        yield lambda done: report(done, total)


@contextmanager
def total_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield report(done, total), shown as one bar that vanishes when done, or as lines."""
    from rich.progress import MofNCompleteColumn

    if not sys.stderr.isatty():
        yield Lines(what).report
        return
    with bars(MofNCompleteColumn()) as progress:
        task = progress.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report


class Lines:
    """A line on stderr every so many seconds; nothing of what is done sooner."""

    def __init__(self, what: str, every_s: float = 5.0) -> None:
        self._what, self._every_s = what, every_s
        self._next = time.monotonic() + every_s

    def report(self, done: int, total: int) -> None:
        """Write `what: done of total`, unless it is too soon."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_s
            print(f"paceline: {self._what}: {done} of {total}", file=sys.stderr, flush=True)


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
