"""Where acceptance comes from in a simulation: a rate, or what was recorded.

The unit is agreement: would the drafter, given the text so far, propose the token that the target
puts at output position t? For chains under greedy and coupled verification that does not depend on
where blocks begin, so one recording replays under any draft length.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from paceline.errors import ConfigError


class Agreement(Protocol):
    """Says how much of a draft stands."""

    def accepted(self, position: int, k: int, rng: random.Random) -> int:
        """Of k tokens drafted from output position `position`, how many stand."""


@dataclass(frozen=True)
class Rates:
    """Conditional acceptance by position within the draft; the last one holds for all further."""

    alphas: tuple[float, ...]

    def accepted(self, position: int, k: int, rng: random.Random) -> int:
        """A run of successes."""
        for depth in range(k):
            if rng.random() >= self.alphas[min(depth, len(self.alphas) - 1)]:
                return depth
        return k


@dataclass(frozen=True)
class Phases:
    """Other rates from some output positions on: text that changes its kind."""

    phases: tuple[tuple[int, Agreement], ...]
    """(first position, agreement), rising, the first from 0."""

    def accepted(self, position: int, k: int, rng: random.Random) -> int:
        """By the phase that the draft begins in."""
        current = [agreement for first, agreement in self.phases if first <= position]
        return current[-1].accepted(position, k, rng)


@dataclass(frozen=True)
class Trace:
    """Recorded agreement at every output position; it starts over at its end."""

    agrees: tuple[bool, ...]

    def __post_init__(self) -> None:
        """Check that there is something to replay."""
        if not self.agrees:
            raise ConfigError("An acceptance trace is empty; record one with drafts of length 1+.")

    def accepted(self, position: int, k: int, rng: random.Random) -> int:
        """The run of agreement from there, as far as k."""
        del rng
        for depth in range(k):
            if not self.agrees[(position + depth) % len(self.agrees)]:
                return depth
        return k

    @property
    def rate(self) -> float:
        """Share of positions at which the drafter agrees."""
        return sum(self.agrees) / len(self.agrees)


def trace_of(passes: Iterable[tuple[int, int]], seed: int = 0) -> Trace:
    """The agreement behind recorded (proposed, accepted) passes of one request.

    A pass that accepts a of k tokens agrees at a positions and then, if a < k, disagrees at one. If
    all stand, the token after them was not drafted: it is drawn with the rate of those that were.
    (4, 2) then (2, 2): yes, yes, no, yes, yes and one unknown.

    Raises:
        ConfigError: no pass has a draft.
    """
    known: list[bool | None] = []
    for proposed, accepted in passes:
        known += [True] * accepted
        known.append(False if accepted < proposed else None)
    judged = [agrees for agrees in known if agrees is not None]
    if not judged:
        raise ConfigError("An acceptance trace needs passes with drafts; there is none.")
    rate, rng = sum(judged) / len(judged), random.Random(seed)
    return Trace(tuple(rng.random() < rate if agrees is None else agrees for agrees in known))


def rate_by_position(agrees: Sequence[bool], k: int) -> list[float]:
    """Conditional acceptance[k] of drafts begun at every position of a trace."""
    counts = Counter(runs(agrees, k))
    at_least = list(accumulate(counts[run] for run in range(k, -1, -1)))[::-1]
    return [survived / reached if reached else 0.0 for reached, survived in pairwise(at_least)]


def runs(agrees: Sequence[bool], k: int) -> list[int]:
    """The agreement from every position of a trace on, as far as k; the last position first."""
    run, found = k, []
    for agree in [*reversed(agrees)] * 2:  # the first round tells how the second begins
        run = min(k, run + 1) if agree else 0
        found.append(run)
    return found[len(agrees) :]
