"""The step to come, and what a budget for it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.plan.belief import Expected, wish_of
from paceline.plan.budget import Spent, Wish
from paceline.plan.costs import PassCosts
from paceline.plan.decision import Candidate, Share
from paceline.plan.live_drafter import LiveDrafter


class Pools(dict[str, Sequence[Expected]]):
    """What a request nothing is known of may expect of each drafter, reckoned when it is asked."""

    def __init__(self, drafters: Mapping[str, LiveDrafter], positions: int) -> None:
        super().__init__()
        self._drafters, self._positions = drafters, positions
        self._wishes: dict[tuple[str, int], Wish] = {}

    def __missing__(self, name: str) -> Sequence[Expected]:
        self[name] = found = self._drafters[name].pool.expect(self._positions)
        return found

    def wish(self, name: str, positions: int) -> Wish:
        """What such a request could draft in so many positions."""
        if (name, positions) not in self._wishes:
            trust = self._drafters[name].trust.factor
            self._wishes[name, positions] = wish_of(name, self[name][:positions], trust=trust)
        return self._wishes[name, positions]


LIGHTEST, HEAVIEST = 0.5, 2.0
"""What a drafted token of a request counts for at least and at most, by what is left of it."""
STEEP = 3
"""The power: a request counts twice as much where a quarter more than the others' is left of it."""


@dataclass(frozen=True)
class Round:
    """The requests of one step and what they share."""

    requests: Sequence[Candidate]
    prefill_rows: int
    ceiling: int
    """Most tokens a request may draft."""
    pools: Pools
    costs: PassCosts
    """Of the target's passes."""

    @cached_property
    def context_tokens(self) -> float:
        """Of all requests together."""
        return float(sum(request.context_tokens for request in self.requests))

    @cached_property
    def plain_ms(self) -> float:
        """The step without drafts."""
        return self.costs.ms(self.rows, self.context_tokens)

    @cached_property
    def plain(self) -> Outlook:
        """The same as an outlook."""
        count = len(self.requests)
        spent = Spent((0,) * count, (0.0,) * count, float(count), self.plain_ms)
        return Outlook({}, spent, 1.0)

    @cached_property
    def weights(self) -> Sequence[float]:
        """What a drafted token of each request counts for: the more, the more is left of it.

        A pass over few requests takes about as long as one over many, so that those that end early
        leave the others in a batch that is slow for its size. Weighed by their rooms, requests that
        began together end together. Rooms of 22, 20 and 18: 1.3, .98 and .71.
        """
        powers = [float(request.room**STEEP) for request in self.requests]
        mean = sum(powers) / len(powers) or 1.0
        return [min(HEAVIEST, max(LIGHTEST, power / mean)) for power in powers]

    def chance(self, drafter: str) -> float:
        """That a request nothing is known of accepts the drafter's first token."""
        return next((first.alpha.mean for first in self.pools[drafter]), 0.0)

    @property
    def has_room(self) -> bool:
        """Whether any request is not at its last token."""
        return any(request.room > 0 for request in self.requests)

    @property
    def rows(self) -> int:
        """Of the plain pass."""
        return len(self.requests) + self.prefill_rows


@dataclass(frozen=True)
class Outlook:
    """A budget and what is expected of it."""

    shares: dict[str, Share]
    spent: Spent
    speedup: float
    """Over the plain step, what must be read first spread over the tokens that may follow."""
    reading_ms: float = 0.0
    """What drafters take, once, to read what they do not know yet."""

    @property
    def drafters(self) -> set[str]:
        """Those in use."""
        return {share.drafter for share in self.shares.values()}

    def loss_ms(self, other: Outlook) -> float:
        """Milliseconds by which it is expected to take longer than `other` for its tokens."""
        took = self.spent.ms + self.reading_ms
        return max(0.0, took - self.spent.tokens / other.spent.tokens_per_ms)
