"""The README's commands run and its Python prints what it promises; its links and tree exist."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from paceline.cli.main import main
from paceline.types import SamplingParams

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
ON_MINI = [c for c in COMMANDS if c.startswith("paceline") and "qwen" not in c]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_there_are_commands_on_the_embedded_model():
    assert len(ON_MINI) >= 4


@pytest.mark.parametrize("command", ON_MINI)
def test_command_runs(command, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip()


def test_commands_on_real_models_are_well_formed(capsys):
    for command in (c for c in COMMANDS if "qwen" in c):
        # --help is the last thing parsed: an option that is no option fails before it.
        assert main([*shlex.split(command)[1:], "--help"]) == 0
        assert "Usage: paceline" in capsys.readouterr().out


def test_make_targets_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    asked = [shlex.split(c)[1] for c in COMMANDS if c.startswith("make")]
    assert asked == ["run", "test"]
    assert set(asked) < set(targets)


def test_python_runs(capsys, mini):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    (expected,) = mini.generate("def read_lines(path):", SamplingParams(temperature=0))
    assert capsys.readouterr().out == expected.text + "\n"


def test_everything_in_the_tree_exists():
    (tree,) = re.findall(r"```\n(paceline/.*?)```", README, re.DOTALL)
    for line in tree.splitlines():
        for name in re.split(r"\s{2,}", line.strip())[:2]:
            if name.endswith("/"):
                base = "paceline" if line.startswith(" ") else "."
                assert (ROOT / base / name).is_dir(), name


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
