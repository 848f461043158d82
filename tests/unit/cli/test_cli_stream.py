"""Streamed text: what was drafted is green, and the last line is ended."""

from __future__ import annotations

import pytest

from paceline.cli.stream import show
from paceline.types import Span

TARGET, DRAFT = Span("def", False), Span(" f", True)


@pytest.mark.parametrize(
    ("spans", "color", "out"),
    [
        ([TARGET, DRAFT], False, "def f\n"),
        ([TARGET, DRAFT], True, "def\x1b[32m f\x1b[0m\n"),
        ([Span("\n", False)], True, "\n"),
        ([Span("a\n", True)], True, "\x1b[32ma\n\x1b[0m"),
        ([], True, "\n"),
    ],
)
def test_show(capsys, spans, color, out):
    show(spans, color)
    assert capsys.readouterr().out == out


def test_the_line_is_ended_when_interrupted(capsys):
    def interrupted():
        yield TARGET
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show(interrupted(), False)
    assert capsys.readouterr().out == "def\n"
