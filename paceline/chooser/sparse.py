"""A law of which few ids have weight: a truncated one, or one that is certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SparseLaw:
    """probs[M] of ids[M], ascending and each once, among `size` ids; the others have none.

    Index, sum and argmax are those of the law written out; a draw from it is the same, too.
    """

    ids: NDArray[np.int64]
    probs: NDArray[np.float64]
    size: int

    @classmethod
    def certain(cls, token: int, size: int) -> SparseLaw:
        """The one-hot law of temperature 0."""
        return cls(np.array([token]), np.ones(1), size)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token: int) -> float:
        return float(self.at(np.array([token]))[0])

    def __iter__(self) -> Iterator[float]:
        return iter(self.dense().tolist())

    def at(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities[...] of ids[...]."""
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.probs[places], 0.0)

    def sum(self) -> float:
        """The mass."""
        return float(self.probs.sum())

    def argmax(self) -> int:
        """The likeliest id, the lowest among equals."""
        return int(self.ids[self.probs.argmax()])

    def dense(self) -> NDArray[np.float64]:
        """The law written out, [size]."""
        law = np.zeros(self.size)
        law[self.ids] = self.probs
        return law
