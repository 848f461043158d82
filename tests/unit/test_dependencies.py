"""pyproject.toml asks for what the package imports, and for nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
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
    extras = project["optional-dependencies"]
    optional = [line for name, lines in extras.items() if name != "dev" for line in lines]
    names = {re.split(r"[\[<>=]", line)[0] for line in (*project["dependencies"], *optional)}
    asked = {name.replace("-", "_") for name in names} - {"paceline"}
    # Measured against where the user has them.
    peers = {"llama_cpp", "openvino", "openvino_genai", "transformers"}
    assert asked | peers == imported()


def twice_written(sources: Iterable[str]) -> set[str]:
    """Named types (`Slots = NDArray[np.int64]`) that more than one module writes."""
    alias = re.compile(r"^[A-Z]\w* = (?!Annotated)[\w.]+(?:\[.*\]| \| .*)$", re.MULTILINE)
    found = Counter(name for source in sources for name in alias.findall(source))
    return {name for name, count in found.items() if count > 1}


def test_shared_types_are_written_once():
    sources = (p.read_text(encoding="utf-8") for p in (ROOT / "paceline").rglob("*.py"))
    assert twice_written(sources) == set()


def test_shared_types_written_twice_are_found():
    one = "Floats = NDArray[np.float64]\nTrial = A | B\n"
    assert twice_written([one, "Floats = NDArray[np.float32]\n"]) == set()
    assert twice_written([one, one]) == {"Floats = NDArray[np.float64]", "Trial = A | B"}
    assert twice_written([one, "Ids = NDArray[np.intp]\nTrial = f(x)[0] + 1\n"]) == set()
