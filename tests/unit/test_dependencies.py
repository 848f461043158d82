"""pyproject.toml asks for what the package imports, and for nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def imported() -> set[str]:
    """The foreign packages that any module imports, at the top or later."""
    names: set[str] = set()
    for path in (ROOT / "paceline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"paceline"}


def test_dependencies_are_the_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]["structured"]
    asked = {re.split("[<>=]", line)[0] for line in (*project["dependencies"], *optional)}
    assert asked == imported()


def test_shared_types_are_written_once():
    written = re.compile(r"^(Progress|Message) = ", re.MULTILINE)
    sources = [p for d in ("models", "cli") for p in (ROOT / "paceline" / d).rglob("*.py")]
    found = [name for p in sources for name in written.findall(p.read_text(encoding="utf-8"))]
    assert sorted(found) == ["Message", "Progress"]
