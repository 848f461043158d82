"""What the target reads and goes on from: the standard library's code, and documents in prose."""

import ast
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from scripts.mini.corpus import Document, documents

SEED = 11
PIECE_CHARACTERS = 3600
"""About 1,000 tokens of a file, so that many files are read."""
LEAST_BODY_LINES = 6
CODE_CHARACTERS, PROSE_CHARACTERS = 140_000, 25_000
HELD_OUT_IN = 12
"""One answer in so many is measured on."""


def pieces(characters: int) -> list[str]:
    """Pieces of so much code in all, each from another file where there are enough."""
    found = [doc for doc in documents() if not doc.held_out]
    return taken((piece(doc.text) for doc in found), characters)


def prose(characters: int) -> list[str]:
    """Pieces of the descriptions of the packages that are installed."""
    root = Path(sysconfig.get_paths()["purelib"])
    paths = sorted(root.glob("*.dist-info/METADATA"))
    random.Random(SEED).shuffle(paths)
    texts = (path.read_text(encoding="utf-8", errors="ignore") for path in paths)
    bodies = (text.partition("\n\n")[2] for text in texts)
    return taken((piece(body) for body in bodies if len(body) > PIECE_CHARACTERS), characters)


def piece(text: str) -> str:
    """One stretch of whole lines of a text; which one follows from the text's length."""
    start = random.Random(len(text)).randrange(max(1, len(text) - PIECE_CHARACTERS))
    start = text.rfind("\n", 0, start) + 1
    return text[start : start + PIECE_CHARACTERS]


def taken(texts: Iterator[str], characters: int) -> list[str]:
    """The first texts that make up so many characters."""
    found: list[str] = []
    for text in texts:
        if sum(map(len, found)) >= characters:
            break
        found.append(text)
    return found


def openings(count: int) -> list[str]:
    """Heads of functions with their docstrings, to be completed."""
    found = [text for doc in documents() for text in heads(doc)]
    random.Random(SEED).shuffle(found)
    return found[:count]


def heads(doc: Document) -> Iterator[str]:
    """The head and docstring of each top-level function of a file that has both and a body."""
    try:
        tree = ast.parse(doc.text)
    except SyntaxError:
        return
    lines = doc.text.splitlines(keepends=True)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            end = node.body[0].end_lineno or node.lineno
            if (node.end_lineno or end) - end >= LEAST_BODY_LINES:
                yield "".join(lines[node.lineno - 1 : end])


def write_corpus(answers: Path, work: Path) -> dict[str, Path]:
    """What is learnt from and what is measured on, as .jsonl; the latter is the target's own."""
    lines = answers.read_text(encoding="utf-8").splitlines()
    held_out = lines[::HELD_OUT_IN]
    read = [*pieces(CODE_CHARACTERS), *prose(PROSE_CHARACTERS)]
    train = [json.dumps({"text": text}) for text in read]
    train += [line for i, line in enumerate(lines) if i % HELD_OUT_IN]
    random.Random(SEED).shuffle(train)
    paths = {}
    for name, found in {"train": train, "held_out": held_out}.items():
        paths[name] = work / f"{name}.jsonl"
        paths[name].write_text("".join(line + "\n" for line in found), encoding="utf-8")
    return paths
