"""Text to train on -> rows of ids, some of them held out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.models import LoadedModel, render_chat
from paceline.models.tokenizer import Tokenizer

HELD_OUT_IN = 20
LEAST_ROWS = 2


@dataclass(frozen=True, eq=False)
class Corpus:
    """Rows of ids, each a piece of text."""

    train: Tensor
    """train[R, T] int64."""
    held_out: Tensor
    """held_out[R, T] int64."""


def read_corpus(
    data: Path, model: LoadedModel, row_tokens: int, held_out: Path | None = None
) -> Corpus:
    """Cut the texts of a file into rows; without a held-out file every twentieth row is held out.

    Raises:
        ConfigError: a file is missing, empty or holds no text; or there is too little of it.
    """
    rows = _rows(data, model, row_tokens)
    if held_out is not None:
        return Corpus(rows, _rows(held_out, model, row_tokens, least=1))
    is_held = torch.arange(len(rows)) % HELD_OUT_IN == min(HELD_OUT_IN, len(rows)) - 1
    return Corpus(rows[~is_held], rows[is_held])


def _rows(path: Path, model: LoadedModel, row_tokens: int, least: int = LEAST_ROWS) -> Tensor:
    end = min(model.spec.eos_ids, default=None)
    ids: list[int] = []
    for text in read_texts(path, model.tokenizer):
        ids += model.tokenizer.encode(text, add_special=not ids, parse_special=True)
        ids += [end] if end is not None else []
    count = len(ids) // row_tokens
    if count < least:
        raise ConfigError(
            f"{path} holds {len(ids)} tokens; {least} rows of {row_tokens} are the least: give more"
            " text, or lower --row-tokens."
        )
    return torch.tensor(ids[: count * row_tokens]).view(count, row_tokens)


def read_texts(path: Path, tokenizer: Tokenizer) -> list[str]:
    """The texts of a file: a whole text, or .jsonl (.gz too) with one `text`, `prompt` and
    `completion`, or `messages` a line.

    Raises:
        ConfigError: the file is missing or empty, or a line is none of these.
    """
    try:
        raw = path.read_bytes()
        whole = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read the text of {path}: {error}.") from error
    if ".jsonl" not in path.suffixes:
        texts = [whole]
    else:
        lines = [line for line in whole.splitlines() if line.strip()]
        texts = [_text(line, f"{path}, line {n}", tokenizer) for n, line in enumerate(lines, 1)]
    if not any(text.strip() for text in texts):
        raise ConfigError(f"{path} is empty; give a file with text to train on.")
    return texts


def _text(line: str, where: str, tokenizer: Tokenizer) -> str:
    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is no JSON: {error}.") from error
    entry = entry if isinstance(entry, dict) else {}
    if isinstance(entry.get("messages"), list):
        return render_chat(tokenizer, entry["messages"])
    parts: Sequence[Any] = [entry[k] for k in ("prompt", "completion", "text") if k in entry]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{where} has no text, prompt and completion, or messages.")
    return "".join(parts)


def frequent_ids(ids: Tensor, count: int | None, vocab_size: int) -> Tensor | None:
    """The `count` most frequent of ids[R, T], rising; None for all."""
    if count is None or count >= vocab_size:
        return None
    counts = torch.bincount(ids.flatten(), minlength=vocab_size)
    return counts.argsort(descending=True, stable=True)[:count].sort().values
