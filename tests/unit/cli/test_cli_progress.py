"""Bars: on stderr, only on a terminal, and gone when done."""

from __future__ import annotations

import io
import sys

from paceline.cli.progress import byte_bar, count_bar


class Stderr(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


class Pipe(Stderr):
    terminal = False


def redirect(monkeypatch, stream: Stderr) -> Stderr:
    # Within the test: pytest puts its own stderr back after the fixtures.
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_nothing_where_nobody_watches(monkeypatch):
    stderr = redirect(monkeypatch, Pipe())
    with byte_bar() as report:
        report(1, 2, "mini")
    with count_bar(2, "prompts") as count:
        count(1)
    assert stderr.getvalue().strip() == ""


def test_bytes_on_a_terminal(monkeypatch, capsys):
    stderr = redirect(monkeypatch, Stderr())
    with byte_bar() as report:
        report(1_000_000, 4_000_000, "pulling")
    assert "pulling" in stderr.getvalue()
    assert "1.0/4.0 MB" in stderr.getvalue()
    assert capsys.readouterr().out == ""


def test_counts_on_a_terminal(monkeypatch):
    stderr = redirect(monkeypatch, Stderr())
    with count_bar(20, "prompts") as report:
        report(7)
    assert "prompts" in stderr.getvalue()
    assert "7/20" in stderr.getvalue()
