"""What may be asked of chance, and the address at which it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.chooser.sparse import SparseLaw

Law = Sequence[Any] | NDArray[np.float64] | SparseLaw
"""Weights by id, >= 0, not all 0: fractions in a proof, float64 in production."""


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

    def race(self, law: Law, position: int, rank: int = 0) -> int:
        """argmax over ids of log law + g, the Gumbel noise g being the position's alone.

        The same noise in every pass, for target and drafters: what makes `coupled` reproducible
        (Daliri, Musco, Suresh 2024, arXiv 2408.07978, section 3). `rank` j asks for the runner
        that comes in j places behind the winner, or for the last one.
        """
