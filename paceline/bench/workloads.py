"""What the benches ask: prompts of five kinds, Paceline's own or those of a data set."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from paceline.engine import LLM
from paceline.errors import ConfigError, UnknownNameError

KINDS = ("complete", "edit", "extract", "chat", "maths")
CONTINUED = {"complete"}
"""Kinds whose prompt is continued as it is, not answered."""
CHAT_CATEGORIES = {
    *("writing", "roleplay", "reasoning", "math"),
    *("coding", "extraction", "stem", "humanities"),
}
"""MT-bench's, as Spec-Bench has them."""


@dataclass(frozen=True)
class Task:
    """One prompt and its kind."""

    kind: str
    prompt: str


def own_tasks() -> list[Task]:
    """Those in the package: three of each kind."""
    text = files("paceline.bench").joinpath("prompts.jsonl").read_text(encoding="utf-8")
    return [Task(record["kind"], record["prompt"]) for record in map(json.loads, text.splitlines())]


def dataset_tasks(path: Path) -> list[Task]:
    """Those of a file of HumanEval, of Spec-Bench, or of lines with `kind` and `prompt`.

    Raises:
        ConfigError: it cannot be read, or holds none.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise ConfigError(f"Cannot read the data set {path}: {error}.") from error
    tasks = [task for record in records if (task := task_of(record))]
    if not tasks:
        raise ConfigError(
            f"{path} holds no task: no HumanEval, Spec-Bench, or lines with kind and prompt."
        )
    return tasks


def task_of(record: Any) -> Task | None:
    """The task of one record; None where it is of no kind that is measured."""
    match record:
        case {"kind": str(kind), "prompt": str(prompt)} if kind in KINDS:
            return Task(kind, prompt)
        case {"task_id": str(), "prompt": str(prompt)}:
            return Task("complete", prompt)
        case {"category": "math_reasoning", "turns": [str(prompt), *_]}:
            return Task("maths", prompt)
        case {"category": str(category), "turns": [str(prompt), *_]}:
            return Task("chat", prompt) if category in CHAT_CATEGORIES else None
    return None


def by_kind(tasks: Iterable[Task], kinds: Sequence[str], count: int) -> dict[str, list[str]]:
    """The first `count` prompts of each kind.

    Raises:
        UnknownNameError: there is no such kind; ConfigError: it has no prompt.
    """
    given = list(tasks)
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("kind of prompts", kind, KINDS)
    found = {kind: [t.prompt for t in given if t.kind == kind][:count] for kind in kinds}
    for kind, prompts in found.items():
        if not prompts:
            raise ConfigError(f"There is no prompt of kind '{kind}'; add a --dataset that has one.")
    return found


def ids_of(llm: LLM, kind: str, prompt: str) -> list[int]:
    """The prompt as the model reads it."""
    if kind in CONTINUED or not llm.has_chat_template:
        return llm.encode(prompt)
    return llm.encode(llm.render([{"role": "user", "content": prompt}]), rendered=True)
