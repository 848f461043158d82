"""The shape of the code, held by tests: layers, sizes, names.

Each check is a function from source text to complaints; it is first shown to complain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.drafters import drafters
from paceline.models.families import families
from paceline.verify import rules

ROOT = Path(__file__).resolve().parents[1]
LAYERS = [
    "errors",
    "files",
    "values",
    "structured",
    "types",
    "config",
    "registry",
    "chooser",
    "kernels",
    "plan",
    "sampling",
    "tree",
    "verify",
    "cache",
    "models",
    "runtime",
    "drafters",
    "engine",
    "certify",
    "train",
    "metrics",
    "server",
    "bench",
    "paceline",
    "cli",
    "__main__",
]
"""A module imports only from its own layer and those before it; `paceline` is the public face."""

CODE = sorted(p for d in ("paceline", "scripts", "tests") for p in (ROOT / d).rglob("*.py"))
PACKAGE = [path for path in CODE if path.is_relative_to(ROOT / "paceline")]
TEXTS = [
    *CODE,
    *(p for p in ROOT.iterdir() if p.suffix in {".md", ".toml", ".txt"} or p.name == "Makefile"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / ".ci").iterdir(),
]

# Names that are English words besides: only an option string or a comparison gives them away.
WORDS = {"none", "model", "suffix", "token", "block", "multi", "merged"}
DEFAULTS = {"paceline/cli/defaults.py", "paceline/train/export.py"}
"""The table of defaults, which may name drafters and rules; others' formats, which have words of
their own that happen to be such names."""


def layer_of(module: str) -> str:
    """The layer a dotted module name belongs to; '' outside the package."""
    parts = module.split(".")
    if parts[0] != "paceline":
        return ""
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "paceline"


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, those within functions and TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*up, node.module or ""]).strip(".") if node.level else node.module
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def wrong_imports(source: str, package: str) -> list[str]:
    """Imports that point downwards in the layout, of a module of `package` (dotted)."""
    own = LAYERS.index(layer_of(package))
    return [
        f"line {line}: imports {module}"
        for line, module in imported(ast.parse(source), package)
        if layer_of(module) and LAYERS.index(layer_of(module)) > own
    ]


def oversized(source: str, parameters: int = 7) -> list[str]:
    """Files, functions and parameter lists beyond the limits."""
    complaints = []
    if (length := len(source.splitlines())) > 300:
        complaints.append(f"{length} lines")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (length := node.end_lineno - node.lineno + 1) > 60:
            complaints.append(f"{node.name}: {length} lines")
        a = node.args
        names = [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        if (count := len([n for n in names if n not in {"self", "cls"}])) > parameters:
            complaints.append(f"{node.name}: {count} parameters")
    return complaints


def vague_names(path: str) -> list[str]:
    """Parts of a path that say nothing."""
    vague = {"manager", "worker", "utils", "util", "info", "v2", "helpers", "misc", "common"}
    return [word for word in re.split(r"[/_.]", path) if word in vague]


def named(source: str, names: set[str]) -> list[str]:
    """String constants that name one of `names`, documentation left out."""
    tree = ast.parse(source)
    prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    compared = {
        id(part)
        for n in ast.walk(tree)
        if isinstance(n, ast.Compare | ast.MatchValue)
        for part in (n.comparators if isinstance(n, ast.Compare) else [n.value])
        if isinstance(n, ast.MatchValue) or isinstance(n.ops[0], ast.Eq | ast.NotEq)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in prose:
            continue
        text = node.value if isinstance(node.value, str) else ""
        name, colon, _ = text.partition(":")
        if name in names and (name not in WORDS or colon or id(node) in compared):
            found.append(f"line {node.lineno}: '{text}'")
    return found


def rooted_paths(text: str) -> list[str]:
    """Absolute paths of somebody's machine."""
    pattern = r"(?<![\w.~/])/(?:home|root|tmp|work|usr|opt|var|mnt|Users)/\S*"
    lines = [line for line in text.splitlines() if not line.startswith("#!")]
    return re.findall(pattern, "\n".join(lines))


def relative(path: Path) -> str:
    """The path within the repository."""
    return path.relative_to(ROOT).as_posix()


def complaints(check, paths) -> list[str]:
    """`file: complaint` of a check over files."""
    return [f"{relative(path)}: {c}" for path in paths for c in check(path)]


def package_of(path: Path) -> str:
    """The dotted package a file's relative imports start from, or the module itself at the top."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if len(parts) == 2 else parts[:-1])


def test_layers():
    modules = [p for p in PACKAGE if p != ROOT / "paceline/__init__.py"]
    assert complaints(lambda p: wrong_imports(p.read_text(), package_of(p)), modules) == []


def test_every_module_has_a_layer():
    top = {package_of(p).split(".")[1] for p in PACKAGE if p != ROOT / "paceline/__init__.py"}
    assert top <= set(LAYERS)


def test_sizes():
    def check(path: Path) -> list[str]:
        many = path.is_relative_to(ROOT / "paceline/cli")
        return oversized(path.read_text(), 99 if many else 7)

    assert complaints(check, CODE) == []


def test_file_names():
    assert complaints(lambda p: vague_names(relative(p)), CODE) == []


@pytest.mark.parametrize(
    ("registry", "home"),
    [(drafters, "drafters"), (rules, "verify"), (families, "models/families")],
    ids=["drafters", "rules", "families"],
)
def test_names_stay_home(registry, home):
    away = [
        p
        for p in PACKAGE
        if not p.is_relative_to(ROOT / "paceline" / home) and relative(p) not in DEFAULTS
    ]
    assert complaints(lambda p: named(p.read_text(), set(registry)), away) == []


def test_no_rooted_paths():
    assert complaints(lambda p: rooted_paths(p.read_text()), TEXTS) == []


def test_every_module_says_what_it_is():
    assert [relative(p) for p in PACKAGE if not ast.get_docstring(ast.parse(p.read_text()))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import paceline.engine",
        "from paceline.engine import step",
        "from paceline import engine",
        "from ..engine import step",
        "from paceline import LLM",
        "def f():\n    from paceline.cli.main import run",
        "if TYPE_CHECKING:\n    import paceline.drafters.base",
    ],
)
def test_layers_can_fail(source):
    assert len(wrong_imports(source, "paceline.models")) == 1


def test_layers_can_pass():
    source = "import torch\nfrom paceline.tree import Draft\nfrom .families import llama"
    assert wrong_imports(source, "paceline.models") == []


def test_sizes_can_fail():
    long = "def f(a, b, c, d, *, e, f, g, h):\n" + "    x = 1\n" * 60
    assert oversized(long) == ["f: 61 lines", "f: 8 parameters"]
    assert oversized("x = 1\n" * 301) == ["301 lines"]
    assert oversized("def f(self, a, b, c, d, e, f, g): ...") == []


def test_file_names_can_fail():
    assert vague_names("paceline/engine/kv_manager.py") == ["manager"]
    assert vague_names("paceline/utils.py") == ["utils"]
    assert vague_names("paceline/tree/token_tree.py") == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x = 'ngram'", 1),
        ("f('ngram:n=3')", 1),
        ("if rule == 'token': pass", 1),
        ("match rule:\n    case 'token': pass", 1),
        ("'''ngram'''", 0),
        ("x = row['token']", 0),
        ("x = 'a model: ngram'", 0),
    ],
)
def test_names_can_fail(source, count):
    assert len(named(source, {"ngram", "token"})) == count


def test_rooted_paths_can_fail():
    slash = "/"
    assert rooted_paths(f"open('{slash}home/me/x')") == [f"{slash}home/me/x')"]
    assert rooted_paths("docs/home/x and https://a.b/usr/c and $HOME/tmp/x") == []
