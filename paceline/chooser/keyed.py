"""The production chooser: every draw is a hash of its address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.chooser.bits import hash_key, uniform
from paceline.chooser.draws import Draw, Law, Purpose
from paceline.chooser.race import winners
from paceline.chooser.sparse import SparseLaw


@dataclass(frozen=True)
class Keyed:
    """Draws keyed by (seed, choice, base, position, row, trial, purpose).

    `base` is part of the key because a position that was drafted and rejected is drafted again in
    the next pass: the same uniform there would bias the block rule. Only `race` leaves it out.
    """

    seed: int
    choice: int = 0
    base: int = 0

    @cached_property
    def _pass_key(self) -> int:
        return hash_key(self.seed, self.choice, self.base)

    def uniform(self, draw: Draw) -> float:
        """The draw's uniform in (0, 1)."""
        return uniform(hash_key(*draw, state=self._pass_key))

    def bernoulli(self, probability: Any, draw: Draw) -> bool:
        """True where the draw's uniform lies below `probability`."""
        return bool(self.uniform(draw) < probability)

    def categorical(self, weights: Law, draw: Draw) -> int:
        """Invert the cumulative sum at the draw's uniform."""
        if isinstance(weights, SparseLaw):
            return int(weights.ids[self.categorical(weights.probs, draw)])
        cumulative = np.cumsum(np.asarray(weights, dtype=np.float64))
        return invert(cumulative, self.uniform(draw))

    def race(self, law: Law, position: int, rank: int = 0) -> int:
        """Run the position's exponential race; it has the law of the Gumbel argmax."""
        return winners([law], [self.race_key(position)], rank)[0]

    def race_key(self, position: int) -> int:
        """The key of a position's noise, the same in every pass."""
        return hash_key(self.seed, self.choice, position, Purpose.RACE)


def invert(cumulative: NDArray[np.float64], uniform: float) -> int:
    """The first id whose cumulative weight exceeds `uniform` of the total."""
    index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    # uniform * total can round up to the total; the last id with weight is then meant.
    return index if index < len(cumulative) else int(np.searchsorted(cumulative, cumulative[-1]))
