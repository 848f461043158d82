"""Where randomness comes from: a Chooser answers every question a rule may ask of chance.

Production answers from keyed uniforms (`Keyed`), the certifier by enumerating every branch, so a
rule's specification is one function for both. A draw is a pure function of its address: there is no
stream, nothing depends on what was drawn before or for whom else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Law = Sequence[Any] | NDArray[np.float64]
"""Weights by id, >= 0, not all 0: fractions in a proof, float64 in production."""

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class Purpose(IntEnum):
    """What a uniform decides; two purposes never share one."""

    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3
    RACE = 4


class Draw(NamedTuple):
    """The address of one draw within a request's pass."""

    position: int
    """Index of the output token it helps to decide; the prompt does not count."""
    row: int
    """Row of the tree node it stands at (0 is the root, the last committed token)."""
    trial: int
    """Ordinal among that node's trials; 0 for a draw of the node itself."""
    purpose: Purpose


class Chooser(Protocol):
    """The three questions a rule may ask."""

    @property
    def base(self) -> int:
        """Output tokens committed when the pass began."""

    def bernoulli(self, probability: Any, draw: Draw) -> bool:
        """True with the given probability; values above 1 count as 1."""

    def categorical(self, weights: Law, draw: Draw) -> int:
        """An id in proportion to its weight."""

    def race(self, law: Law, position: int) -> int:
        """argmax over ids of log law + g, the Gumbel noise g being the position's alone.

        The same noise in every pass, for target and drafters: what makes `coupled` reproducible
        (Daliri, Musco, Suresh 2024, arXiv 2408.07978, section 3).
        """


def mix(state: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): 64 bits to 64 bits, a bijection."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def hash_key(*parts: int) -> int:
    """Hash a tuple of integers to 64 bits."""
    state = 0
    for part in parts:
        state = mix((state + GOLDEN + mix((part + GOLDEN) & MASK)) & MASK)
    return state


@dataclass(frozen=True)
class Keyed:
    """Draws keyed by (seed, choice, base, position, row, trial, purpose).

    `base` is part of the key because a position that was drafted and rejected is drafted again in
    the next pass: the same uniform there would bias the block rule. Only `race` leaves it out.
    """

    seed: int
    choice: int = 0
    base: int = 0

    def uniform(self, draw: Draw) -> float:
        """A number in (0, 1), uniform over the midpoints of 2**53 cells."""
        bits = hash_key(self.seed, self.choice, self.base, *draw)
        return ((bits >> 11) + 0.5) * 2.0**-53

    def bernoulli(self, probability: Any, draw: Draw) -> bool:
        """True where the draw's uniform lies below `probability`."""
        return self.uniform(draw) < probability

    def categorical(self, weights: Law, draw: Draw) -> int:
        """Invert the cumulative sum at the draw's uniform."""
        cumulative = np.cumsum(np.asarray(weights, dtype=np.float64))
        return invert(cumulative, self.uniform(draw))

    def race(self, law: Law, position: int) -> int:
        """Run the exponential race over the law's support; it has the law of the Gumbel argmax."""
        weights = np.asarray(law, dtype=np.float64)
        ids = np.flatnonzero(weights)
        return int(ids[np.argmin(self.arrivals(position, ids) / weights[ids])])

    def arrivals(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard exponential noise -log u of a position, one number an id."""
        key = hash_key(self.seed, self.choice, position, Purpose.RACE)
        with np.errstate(over="ignore"):
            bits = mix_array(np.uint64(key) + (ids.astype(np.uint64) + 1) * np.uint64(GOLDEN))
        return -np.log(((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def mix_array(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix`, elementwise."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def invert(cumulative: NDArray[np.float64], uniform: float) -> int:
    """The first id whose cumulative weight exceeds `uniform` of the total."""
    index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    # uniform * total can round up to the total; the last id with weight is then meant.
    return index if index < len(cumulative) else int(np.searchsorted(cumulative, cumulative[-1]))
