"""A tokenizer of letters and syllables in an order of its own, and a model that reads by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np

from paceline.engine import Engine
from paceline.kernels.batch import Batch, KVTensors, PassOutput
from tests.engines import engine
from tests.oracle import Letters, Oracle

PIECES = ("<s>", "ba", "c", "a", "abc", "b", "d", "e", "zz", "gh")
"""By id; it has syllables that a letter tokenizer has not, and lacks f, g and h."""


@dataclass
class Syllables(Letters):
    """Reads the longest piece first; a text starts with <s>."""

    vocab_size: int = len(PIECES)
    special_ids = frozenset({0})

    def names(self) -> dict[int, str]:
        return dict(enumerate(PIECES))

    def token_bytes(self, i: int) -> bytes:
        return PIECES[i].encode()

    def encode(self, text: str, *, add_special: bool = False, **_: bool) -> list[int]:
        ids = [0] if add_special else []
        while text:
            fits = [p for p in PIECES[1:] if text.startswith(p)]
            piece = max(fits, key=len, default="zz")
            ids.append(PIECES.index(piece))
            text = text[len(piece) if fits else 1 :]
        return ids


@dataclass
class Reader(Oracle):
    """A draft model of syllables; what its rows read is kept in `texts`."""

    vocab_size: int = len(PIECES)
    salt: int = 9
    tokenizer: Letters = field(default_factory=Syllables)
    texts: list[tuple[int, ...]] = field(default_factory=list)

    def forward(self, batch: Batch, kv: KVTensors) -> PassOutput:
        out, wanted = super().forward(batch, kv), set(batch.logit_rows.tolist())
        for segment in batch.segments:
            own = batch.slots[segment.start : segment.start + segment.rows]
            at = np.concatenate([segment.context_slots, own])
            tokens = kv.keys[0, at, 0, 0].int().tolist()
            for row in range(segment.rows):
                if segment.start + row in wanted:
                    self.texts.append(tuple(tokens[: len(segment.context_slots) + row + 1]))
        return out


def spelt(ids: Sequence[int]) -> str:
    """The text of a reader's ids."""
    return "".join(PIECES[i] for i in ids if i)


DRAFTER = "model:reader:vocabulary=intersect"


def syllable_engine(target: Oracle, draft: Oracle | None = None, options: str = "") -> Engine:
    """An engine whose draft model reads syllables."""
    with patch("paceline.drafters.model.load_model", lambda *_, **__: draft or Reader()):
        return engine(DRAFTER + options, target=target)
