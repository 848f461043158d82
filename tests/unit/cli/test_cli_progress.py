"""Bars: on stderr, only on a terminal, and gone when done."""

from __future__ import annotations

import io
import sys

from paceline.cli.progress import Lines, byte_bar, count_bar


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


def test_lines_where_nobody_watches_and_it_takes_long(capsys):
    report = Lines("cases", every_s=0).report
    report(1, 3)
    report(3, 3)
    assert capsys.readouterr().err == "paceline: cases: 1 of 3\npaceline: cases: 3 of 3\n"
    Lines("cases", every_s=3600).report(1, 3)
    assert capsys.readouterr().err == ""
