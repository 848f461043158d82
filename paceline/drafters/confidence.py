"""What a layer's confidence is worth: on held-out text, and on the text at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from paceline.models.fields import Fields

STEP = 0.3
"""How far an outcome moves the log odds, by its surprise."""
FARTHEST = 3.0
"""Greatest shift of the log odds."""
EDGE = 1e-6
"""No rate is nearer to 0 or 1."""


@dataclass(frozen=True)
class Calibration:
    """What a confidence is worth: how often tokens drafted with it were right, by depth."""

    tables: Sequence[tuple[Sequence[float], Sequence[float]]] = (((0.0, 1.0), (0.0, 1.0)),)
    """(confidences, rates) of each depth, the last one's also of what lies deeper."""

    @classmethod
    def read(cls, config: Fields, key: str) -> Calibration:
        """From config.json, where a depth's two lists are neighbours; raises ModelFileError."""
        if key not in config:
            return cls()
        rows = config.shares(key)
        tables = list(zip(rows[::2], rows[1::2], strict=False))
        fit = all(said and len(said) == len(r) and sorted(said) == said for said, r in tables)
        if not tables or len(rows) % 2 or not fit:
            raise config.fault(key, "is not pairs of lists of one length, the first of each rising")
        return cls(tables)

    def __call__(self, depth: int, confidences: Sequence[float]) -> list[float]:
        """The rate of each confidence, linearly between those that were measured at a depth."""
        table = self.tables[min(depth, len(self.tables)) - 1]
        found: list[float] = np.interp(confidences, *table).tolist()
        return found


@dataclass(eq=False)
class Recalibration:
    """One request's own correction, as a text can be far surer than most: an edit, for one.

    The log odds that the likeliest child is right are shifted by what is learnt from the outcomes,
    by the gradient of their log likelihood; its siblings share what it leaves.
    """

    shift: float = 0.0

    def __call__(self, rates: Sequence[float]) -> list[float]:
        """The corrected rates of a row's children, the likeliest first."""
        if not rates:
            return []
        first = min(max(rates[0], EDGE), 1 - EDGE)
        own = 1 / (1 + (1 - first) / first * exp(-self.shift))
        return [own, *(min(rate / (1 - first), 1.0) * (1 - own) for rate in rates[1:])]

    def learn(self, rate: float, right: bool) -> None:
        """Take in whether a likeliest child, given the corrected rate, was right."""
        self.shift = min(max(self.shift + STEP * (right - rate), -FARTHEST), FARTHEST)
