"""Text on the terminal as it is committed, accepted draft tokens apart where asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from paceline.types import Span

DRAFTED, PLAIN = "\x1b[32m", "\x1b[0m"


def paint(span: Span) -> str:
    """The span's text, green if it was drafted."""
    return f"{DRAFTED}{span.text}{PLAIN}" if span.drafted else span.text


def show(spans: Iterable[Span], color: bool) -> None:
    """Write each span at once; end the line, also when interrupted."""
    ended = False
    try:
        for span in spans:
            sys.stdout.write(paint(span) if color else span.text)
            sys.stdout.flush()
            ended = span.text.endswith("\n")
    finally:
        if not ended:
            sys.stdout.write("\n")
            sys.stdout.flush()
