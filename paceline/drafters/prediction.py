"""The caller's guess of the answer, followed token by token; it is found again after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.errors import ConfigError
from paceline.tree import NO_DRAFT, Draft, PointMass

PREDICTION = "prediction"
TOKEN_BITS = 32
"""Enough for any id."""


@register(PREDICTION)
@dataclass(frozen=True)
class Prediction:
    """Options: the draft length, and how the guess is found again.

    After a change the output's last tokens are looked for in the guess: `max_n` of them, then
    fewer; one alone counts only within `near` tokens of where the guess was left.

    Raises:
        ConfigError: unless k, max_n and near are at least 1.
    """

    k: int = 8
    max_n: int = 4
    near: int = 32

    needs = Needs()

    def __post_init__(self) -> None:
        """Check the ranges."""
        if min(self.k, self.max_n, self.near) < 1:
            raise ConfigError(
                f"Drafter '{PREDICTION}' wants k, max_n and near >= 1,"
                f" not k={self.k}, max_n={self.max_n}, near={self.near}."
            )

    def build(self, host: Host) -> LiveDrafter:
        """It needs nothing of the engine."""
        del host
        return LivePrediction(self.max_n, self.near)


class LivePrediction:
    """Holds one place in one guess a request; requests with the same guess share its n-grams."""

    def __init__(self, max_n: int, near: int) -> None:
        self._max_n, self._near = max_n, near
        self._places: dict[str, Place] = {}
        self._indexed = WeakValueDictionary[tuple[int, ...], Occurrences]()

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """What the guess has next, at most the budget; nothing where it is lost or at its end."""
        return [self._draft(ctx, budget) for ctx, budget in zip(contexts, budgets, strict=True)]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Nothing to learn: the next proposal reads the tokens themselves."""

    def release(self, request_id: str) -> None:
        """Forget the request."""
        self._places.pop(request_id, None)

    def _draft(self, ctx: DraftContext, budget: int) -> Draft:
        if not ctx.prediction:
            return NO_DRAFT
        place = self._places.get(ctx.request_id)
        if place is None:
            occurrences = self._occurrences(ctx.prediction)
            place = Place(ctx.prediction, occurrences, ctx.prompt_tokens, self._near)
            self._places[ctx.request_id] = place
        place.read(ctx.tokens)
        if place.lost:
            return NO_DRAFT
        return Draft.chain(map(PointMass, ctx.prediction[place.next : place.next + budget]))

    def _occurrences(self, guess: tuple[int, ...]) -> Occurrences:
        found = self._indexed.get(guess)
        if found is None:
            found = self._indexed[guess] = Occurrences(guess, self._max_n)
        return found


class Occurrences:
    """Where in a guess its n-grams of up to `max_n` tokens end.

    An n-gram is read from its last token back: its key is the token it begins with, behind the
    number of the n - 1 tokens after that. Sorted keys number the n-grams of each n.
    """

    def __init__(self, guess: Sequence[int], max_n: int) -> None:
        tokens = np.array(guess, np.int64)
        ends = np.arange(1, len(tokens) + 1)
        numbers = np.zeros_like(ends)
        self.max_n = max_n
        self._keys = list[NDArray[np.int64]]()
        self._ends = list[NDArray[np.int64]]()
        for n in range(1, min(max_n, len(tokens)) + 1):
            keys = (numbers[ends >= n] << TOKEN_BITS) + tokens[: len(tokens) + 1 - n]
            ends = ends[ends >= n]
            order = np.argsort(keys, kind="stable")
            self._keys.append(keys[order])
            self._ends.append(ends[order])
            numbers = np.searchsorted(self._keys[-1], keys)

    def of_longest(self, tail: Sequence[int]) -> tuple[int, NDArray[np.int64]]:
        """Length n of the longest known n-gram at the end of `tail`, and its ascending ends."""
        n, number, found = 0, 0, np.empty(0, np.int64)
        for token, keys, ends in zip(reversed(tail), self._keys, self._ends, strict=False):
            key = (number << TOKEN_BITS) + token
            number, stop = (int(np.searchsorted(keys, key, side)) for side in ("left", "right"))
            if number == stop:
                break
            n, found = n + 1, ends[number:stop]
        return n, found


class Place:
    """Where the output is in the guess. A step costs its new tokens, whatever the lengths."""

    def __init__(
        self, guess: tuple[int, ...], occurrences: Occurrences, start: int, near: int
    ) -> None:
        self._guess, self._occurrences, self._near = guess, occurrences, near
        self._start = self._read = start
        self.next = 0
        """Index of the guess's next token."""
        self.lost = False

    def read(self, tokens: Sequence[int]) -> None:
        """Follow what was appended to the output since the last call."""
        for at in range(self._read, len(tokens)):
            if not self.lost and self._guess[self.next : self.next + 1] == (tokens[at],):
                self.next += 1
            else:
                first = max(self._start, at + 1 - self._occurrences.max_n)
                self._find(tokens[first : at + 1])
        self._read = len(tokens)

    def _find(self, tail: Sequence[int]) -> None:
        """Go on behind the occurrence of the longest known tail that is nearest."""
        n, ends = self._occurrences.of_longest(tail)
        after = int(np.searchsorted(ends, self.next))
        around = ends[max(0, after - 1) : after + 1].tolist()
        nearest = min(around, key=lambda end: abs(end - self.next), default=0)
        self.lost = not n or (n == 1 and abs(nearest - self.next) > self._near)
        if not self.lost:
            self.next = nearest
