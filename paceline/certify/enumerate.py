"""A chooser that takes every branch: what a program may do, with exact rational probabilities.

Each address is one uniform number u in (0, 1), and what has been learnt of it is the interval it
must lie in. A coin is the question "u < probability?", a categorical draw asks between which
cumulative weights u lies, both as the keyed chooser asks them, and every answer narrows the
interval. So a program that asks one address twice is answered as the keyed chooser would answer it,
and wrong keys show as a wrong law.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Generic, NamedTuple, TypeVar

from paceline.chooser import Draw, Law, Purpose

T = TypeVar("T")


class Address(NamedTuple):
    """The name of one uniform number; equal addresses are the same number."""

    base: int | None
    """Output tokens committed when the pass began; None where the key leaves it out."""
    draw: Draw


class Interval(NamedTuple):
    """What is known of a uniform number: it lies in [low, high)."""

    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)

    def cut(self, weights: Law) -> list[tuple[int, Interval]]:
        """Cut (0, 1) in proportion to weights: (index, what of that piece lies within this)."""
        if any(isinstance(weight, float) for weight in weights):
            raise TypeError(f"An exact proof needs fractions, not {list(weights)}.")
        pieces = in_proportion(tuple(weights))
        if self is WHOLE:
            return pieces
        within = ((i, Interval(max(self.low, p.low), min(self.high, p.high))) for i, p in pieces)
        return [(index, piece) for index, piece in within if piece.low < piece.high]


WHOLE = Interval()
"""Nothing is known."""


@lru_cache(1 << 14)
def in_proportion(weights: tuple[Any, ...]) -> list[tuple[int, Interval]]:
    """(index, piece) of (0, 1) cut in proportion to weights; those of weight 0 are left out."""
    bounds = list(accumulate(weights, initial=Fraction(0)))
    if (total := bounds[-1]) != 1:
        bounds = [bound / total for bound in bounds]
    pieces = enumerate(pairwise(bounds))
    return [(index, Interval(low, high)) for index, (low, high) in pieces if low < high]


@dataclass(frozen=True)
class Known:
    """What a branch has learnt so far."""

    intervals: dict[Address, Interval] = field(default_factory=dict)
    raced: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """position -> the law that its noise was asked for."""

    def since(self, base: int) -> Known:
        """What still matters in passes of that base or later: older passes' keys cannot recur."""
        recent = {a: i for a, i in self.intervals.items() if a.base is None or a.base >= base}
        return Known(recent, self.raced)

    @property
    def key(self) -> Hashable:
        """The same for branches that have learnt the same."""
        return frozenset(self.intervals.items()), frozenset(self.raced.items())


class NotEnumerableError(Exception):
    """The program asked what no enumeration can answer exactly."""


class Enumerating:
    """A Chooser on one branch: it follows a script of answers, then takes first answers.

    Whatever else could have been answered is appended to `pending` as a script of its own.
    """

    def __init__(
        self, base: int, known: Known, script: Sequence[int], pending: list[tuple[int, ...]]
    ) -> None:
        self.base = base
        self.known = Known(dict(known.intervals), dict(known.raced))
        self.probability = Fraction(1)
        """Of this branch, given what was known at its start."""
        self._script, self._pending = script, pending
        self._taken: tuple[int, ...] = ()

    def address(self, draw: Draw) -> Address:
        """The key of a draw; a mutant leaves out what must not be left out."""
        return Address(self.base, draw)

    def bernoulli(self, probability: Any, draw: Draw) -> bool:
        """True where u < probability."""
        probability = min(probability, 1)
        return self._locate(self.address(draw), [probability, 1 - probability]) == 0

    def categorical(self, weights: Law, draw: Draw) -> int:
        """The id between whose cumulative weights u lies."""
        return self._locate(self.address(draw), weights)

    def race(self, law: Law, position: int, rank: int = 0) -> int:
        """A categorical draw, the same in every pass.

        Raises:
            NotEnumerableError: a second law runs on the noise, or a runner-up is asked for.
        """
        if rank or self.known.raced.setdefault(position, tuple(law)) != tuple(law):
            raise NotEnumerableError(f"The noise of position {position} is asked twice.")
        return self._locate(Address(None, Draw(position, 0, 0, Purpose.RACE)), law)

    def _locate(self, address: Address, weights: Law) -> int:
        """The piece of (0, 1), cut in proportion to weights, that holds the address's u."""
        known = self.known.intervals.get(address, WHOLE)
        pieces = known.cut(weights)
        index, piece = pieces[self._answer(len(pieces))]
        if piece != known:  # else nothing was learnt
            self.known.intervals[address] = piece
            self.probability *= (piece.high - piece.low) / (known.high - known.low)
        return index

    def _answer(self, options: int) -> int:
        """The script's next answer, or the first; a question with one answer is none."""
        if options == 1:
            return 0
        step = len(self._taken)
        if step < len(self._script):
            answer = self._script[step]
        else:
            answer = 0
            self._pending.extend((*self._taken, other) for other in range(1, options))
        self._taken = (*self._taken, answer)
        return answer


@dataclass(frozen=True)
class Branch(Generic[T]):
    """One way a program may go."""

    outcome: T
    probability: Fraction
    known: Known
    """What is known of the uniforms afterwards."""


def branches(
    program: Callable[[Enumerating], T],
    base: int = 0,
    known: Known = Known(),
    chooser: type[Enumerating] = Enumerating,
) -> Iterator[Branch[T]]:
    """Run a program once for every sequence of answers it may get."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        one = chooser(base, known, pending.pop(), pending)
        outcome = program(one)
        yield Branch(outcome, one.probability, one.known)


def law_of(program: Callable[[Enumerating], T]) -> dict[T, Fraction]:
    """{outcome: probability} of a program."""
    law: dict[T, Fraction] = {}
    for branch in branches(program):
        law[branch.outcome] = law.get(branch.outcome, Fraction(0)) + branch.probability
    return law
