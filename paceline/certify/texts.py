"""The law of texts: what a server shows of the outputs there can be."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.certify.forced import JointLaw
from paceline.certify.gtest import gather
from paceline.chooser.race import Floats
from paceline.models import Tokenizer


@dataclass(frozen=True, eq=False, kw_only=True)
class TextLaw:
    """The exact law of C texts, of a joint law over S outputs; some share a text."""

    texts: dict[str, int]
    """Text -> its place in probs."""
    ranks: NDArray[np.int64]
    """ranks[C, TOKENS]: texts have the same one where their tokens there have the same places
    among those possible, the likeliest 0 (of a shared text: the same set of places)."""
    probs: Floats
    """probs[C]."""
    shared_mass: float
    """The probability of the texts that several outputs share."""

    def count(self, outputs: Iterable[str]) -> Floats:
        """How often each possible text came, counts[C]; others are left out."""
        known = (self.texts.get(shown(text)) for text in outputs)
        found = [place for place in known if place is not None]
        return np.bincount(found, minlength=len(self.probs)).astype(np.float64)


def text_law(law: JointLaw, tokenizer: Tokenizer) -> TextLaw:
    """The law of what is shown: outputs end before the first id that ends a text."""
    texts: dict[str, int] = {}
    ends = tokenizer.eos_ids
    written = [shown(tokenizer.decode(before(row, ends))) for row in law.tokens.tolist()]
    cells = np.array([texts.setdefault(text, len(texts)) for text in written])
    sharing: list[list[int]] = [[] for _ in texts]
    for output, cell in enumerate(cells):
        sharing[cell].append(output)
    columns = [
        numbered([frozenset(column[outputs].tolist()) for outputs in sharing])
        for column in law.ranks.T
    ]
    probs = gather(cells, law.probs)
    several = np.array([len(outputs) > 1 for outputs in sharing])
    shared_mass = float(probs[several].sum())
    return TextLaw(texts=texts, ranks=np.array(columns).T, probs=probs, shared_mass=shared_mass)


def shown(text: str) -> str:
    """A text as every server shows it.

    Some drop the blank that a SentencePiece text begins with, or the half character it ends in.
    """
    return text.lstrip(" ").rstrip("\ufffd")


def before(ids: Sequence[int], ends: Collection[int]) -> Sequence[int]:
    """The ids before the first that is an end."""
    return next((ids[:at] for at, token in enumerate(ids) if token in ends), ids)


def numbered(labels: Sequence[Hashable]) -> list[int]:
    """Each label's number, in the order in which they first come."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]
