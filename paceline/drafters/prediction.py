"""The caller's guess of the answer, followed token by token; it is found again after a change."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.errors import ConfigError
from paceline.tree import NO_DRAFT, Draft, PointMass

PREDICTION = "prediction"


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
    """Holds one place in one guess a request."""

    def __init__(self, max_n: int, near: int) -> None:
        self._max_n, self._near = max_n, near
        self._places: dict[str, Place] = {}

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
            place = Place(ctx.prediction, ctx.prompt_tokens, self._max_n, self._near)
            self._places[ctx.request_id] = place
        place.read(ctx.tokens)
        if place.lost:
            return NO_DRAFT
        return Draft.chain(PointMass(t) for t in ctx.prediction[place.next :][:budget])


class Place:
    """Where the output is in the guess. A step costs its new tokens, whatever the lengths."""

    def __init__(self, guess: Sequence[int], start: int, max_n: int, near: int) -> None:
        self._guess, self._start, self._read, self._near = guess, start, start, near
        self._sizes = range(max_n, 0, -1)
        self._followers: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for end in range(1, len(guess) + 1):
            for n in self._sizes:
                if n <= end:
                    self._followers[tuple(guess[end - n : end])].append(end)
        self.next = 0
        """Index of the guess's next token."""
        self.lost = False

    def read(self, tokens: Sequence[int]) -> None:
        """Follow what was appended to the output since the last call."""
        for at in range(self._read, len(tokens)):
            if not self.lost and self._guess[self.next : self.next + 1] == (tokens[at],):
                self.next += 1
            else:
                self._find(tokens[max(self._start, at + 1 - self._sizes[0]) : at + 1])
        self._read = len(tokens)

    def _find(self, tail: Sequence[int]) -> None:
        """Go on behind the occurrence of the longest known tail that is nearest."""
        for n in self._sizes:
            ends = self._followers.get(tuple(tail[len(tail) - n :])) if n <= len(tail) else None
            if ends:
                after = bisect_left(ends, self.next)
                found = min(ends[max(0, after - 1) : after + 1], key=lambda e: abs(e - self.next))
                if n > 1 or abs(found - self.next) <= self._near:
                    self.next, self.lost = found, False
                    return
        self.lost = True
