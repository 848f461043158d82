"""The text: the standard library and a few permissively licensed packages, as found installed."""

import hashlib
import importlib.metadata
import platform
import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .recipe import SEED

# Distribution name -> (import name, licence). Only MIT, BSD and Apache-2.0 may be listed here.
PACKAGES = {
    "anyio": ("anyio", "MIT"),
    "click": ("click", "BSD-3-Clause"),
    "filelock": ("filelock", "MIT"),
    "fsspec": ("fsspec", "BSD-3-Clause"),
    "h11": ("h11", "MIT"),
    "httpcore2": ("httpcore2", "BSD-3-Clause"),
    "httpx2": ("httpx2", "BSD-3-Clause"),
    "jinja2": ("jinja2", "BSD-3-Clause"),
    "markdown-it-py": ("markdown_it", "MIT"),
    "networkx": ("networkx", "BSD-3-Clause"),
    "packaging": ("packaging", "Apache-2.0 OR BSD-2-Clause"),
    "platformdirs": ("platformdirs", "MIT"),
    "pydantic": ("pydantic", "MIT"),
    "requests": ("requests", "Apache-2.0"),
    "rich": ("rich", "MIT"),
    "setuptools": ("setuptools", "MIT"),
    "typer": ("typer", "MIT"),
    "urllib3": ("urllib3", "MIT"),
}
SKIPPED_FOLDERS = {
    "test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "encodings",
    "_vendor", "_distutils", "pydoc_data", "lib2to3", "v1", "_unicode_data",
}  # fmt: skip
# Real prose and code stay above this share of letters and blanks; generated tables fall below it.
LEAST_LETTERS = 0.62
HELD_OUT_IN = 40


@dataclass(frozen=True)
class Document:
    """One file's text under the name that decides its split."""

    source: str
    name: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether the name falls in the held-out fortieth."""
        return _digest(f"{self.source}/{self.name}") % HELD_OUT_IN == 0


def documents() -> list[Document]:
    """Every document, each text once, in an order that depends on the seed alone."""
    found: dict[str, Document] = {}
    for doc in _all_documents():
        found.setdefault(hashlib.sha256(doc.text.encode()).hexdigest(), doc)
    ordered = sorted(found.values(), key=lambda doc: (doc.source, doc.name))
    random.Random(SEED).shuffle(ordered)
    return ordered


def versions() -> dict[str, str]:
    """What was read: source -> version."""
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"CPython": platform.python_version(), **packages}


def _all_documents() -> Iterator[Document]:
    yield from _files("CPython", Path(sysconfig.get_paths()["stdlib"]))
    yield from _topics()
    site = Path(sysconfig.get_paths()["purelib"])
    for name, (folder, _) in PACKAGES.items():
        yield from _files(name, site / folder)


def _files(source: str, root: Path) -> Iterator[Document]:
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if SKIPPED_FOLDERS.intersection(name.parts) or "config-" in str(name):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore").replace("\r\n", "\n")
        if len(text) > 200 and _reads_like_code(text):
            yield Document(source, name.as_posix(), text)


def _topics() -> Iterator[Document]:
    """The language reference that `help()` shows: English prose about Python."""
    from pydoc_data.topics import topics  # noqa: PLC0415  (large, and needed once)

    for name, text in sorted(topics.items()):
        yield Document("CPython", f"topics/{name}", str(text))


def _reads_like_code(text: str) -> bool:
    letters = sum(char.isalpha() or char.isspace() for char in text)
    return letters / len(text) >= LEAST_LETTERS


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
