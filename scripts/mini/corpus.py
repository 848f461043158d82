"""The text: the pure-Python standard library of the interpreter that runs this."""

import hashlib
import platform
import random
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from .recipe import SEED

# A model this small gains more from one house style than from variety, hence one source alone.
SOURCE = f"CPython {platform.python_version()} standard library"
LICENCE = "PSF-2.0"
SKIPPED_FOLDERS = {
    "test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__",
    "encodings", "pydoc_data",
}  # fmt: skip
# Code and prose stay above this share of letters and blanks; generated tables fall below it.
LEAST_LETTERS = 0.62
HELD_OUT_IN = 40


@dataclass(frozen=True)
class Document:
    """One file's text under the name that decides its split."""

    name: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether the name falls in the held-out fortieth."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8]) % HELD_OUT_IN == 0


def documents() -> list[Document]:
    """Every document, each text once, in an order that depends on the seed alone."""
    found: dict[str, Document] = {}
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if SKIPPED_FOLDERS.intersection(name.parts) or name.parts[0].startswith("config-"):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore").replace("\r\n", "\n")
        if len(text) > 200 and _reads_like_code(text):
            found.setdefault(text, Document(name.as_posix(), text))
    ordered = sorted(found.values(), key=lambda doc: doc.name)
    random.Random(SEED).shuffle(ordered)
    return ordered


def _reads_like_code(text: str) -> bool:
    letters = sum(char.isalpha() or char.isspace() for char in text)
    return letters / len(text) >= LEAST_LETTERS
