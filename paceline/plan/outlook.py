"""The step to come, and what a budget for it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.plan.belief import Belief, Expected
from paceline.plan.budget import Spent
from paceline.plan.decision import Candidate, Share
from paceline.plan.live import LiveDraftCosts


@dataclass
class LiveDrafter:
    """A drafter as it is known now."""

    costs: LiveDraftCosts
    pool: Belief
    ready: set[str] = field(default_factory=set)
    """Requests it drafted for in the last step; for others it may have to catch up first."""


class Pools(dict[str, Sequence[Expected]]):
    """What a request nothing is known of may expect of each drafter, reckoned when it is asked."""

    def __init__(self, drafters: Mapping[str, LiveDrafter], positions: int) -> None:
        super().__init__()
        self._drafters, self._positions = drafters, positions

    def __missing__(self, name: str) -> Sequence[Expected]:
        self[name] = found = self._drafters[name].pool.expect(self._positions)
        return found


@dataclass(frozen=True)
class Round:
    """The requests of one step and what they share."""

    requests: Sequence[Candidate]
    prefill_rows: int
    ceiling: int
    """Most tokens a request may draft."""
    pools: Pools

    @property
    def context_tokens(self) -> float:
        """Of all requests together."""
        return float(sum(request.context_tokens for request in self.requests))

    def chance(self, drafter: str) -> float:
        """That a request nothing is known of accepts the drafter's first token."""
        return next((first.alpha.mean for first in self.pools[drafter]), 0.0)

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
    """Over the plain step."""

    @property
    def drafters(self) -> set[str]:
        """Those in use."""
        return {share.drafter for share in self.shares.values()}

    def loss_ms(self, other: Outlook) -> float:
        """Milliseconds by which it is expected to take longer than `other` for its tokens."""
        return max(0.0, self.spent.ms - self.spent.tokens / other.spent.tokens_per_ms)
