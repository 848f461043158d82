"""The console script: ready for Ctrl-C and closed streams before the first heavy import."""

from __future__ import annotations

import contextlib
import os
import sys

INTERRUPTED = 130


def run() -> None:
    """Run the command line and exit with its code."""
    try:
        _replace_closed_streams()
        if {"--help", "--version"}.isdisjoint(sys.argv):
            import numpy as np  # noqa: F401  torch's own import of it would swallow an interrupt
        from paceline.cli.main import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        print("paceline: interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _replace_closed_streams() -> None:
    """A stream that the parent closed reads nothing and writes nowhere; text may hold anything."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
