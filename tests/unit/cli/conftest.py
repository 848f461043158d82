"""The command line in this process: exit code, stdout, stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from paceline.cli.main import main
from paceline.engine import LLM
from paceline.kernels.library import available

collect_ignore_glob = [] if available() else ["test_cli_native_*.py"]
"""Where the native library was not built, the tests of its measurements do not exist."""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """Standard input nobody has piped anything into."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def cli(capsys, monkeypatch) -> Callable[..., Ran]:
    """cli(*args, stdin=bytes): run one command line."""

    def run(*args: str, stdin: bytes | None = None) -> Ran:
        piped = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", Terminal() if piped is None else piped)
        capsys.readouterr()
        code = main(list(args))
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def loaded(cli, mini, monkeypatch) -> Callable[..., Ran]:
    """`cli`, but every load gives the session's model."""
    for command in ("generate", "chat", "certify"):
        module = f"paceline.cli.{command}.load"
        monkeypatch.setattr(module, lambda model, draft, batch, **settings: mini)
    return cli


@pytest.fixture
def templated(mini, monkeypatch) -> LLM:
    """The session's model with a chat template."""

    def render(llm: LLM, messages) -> str:
        return "".join(f"# {m['role']}: {m['content']}\n" for m in messages)

    monkeypatch.setattr(LLM, "has_chat_template", True)
    monkeypatch.setattr(LLM, "render", render)
    return mini


@pytest.fixture
def bos(mini, monkeypatch) -> list[bool]:
    """For each text that is encoded, whether it gets special tokens to begin with."""
    asked: list[bool] = []
    encode = type(mini.tokenizer).encode

    def watched(tokenizer, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        asked.append(add_special)
        return encode(tokenizer, text, add_special=add_special, parse_special=parse_special)

    monkeypatch.setattr(type(mini.tokenizer), "encode", watched)
    return asked
