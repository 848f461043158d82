"""Tokens out of a hash: drafts of which nothing stands, to measure what drafting costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.tree import Draft, PointMass

NOISE = "noise"
STRIDE = 2654435761
"""Knuth's multiplier for hashing."""


@register(NOISE)
@dataclass(frozen=True)
class Noise:
    """Its one option is the draft length."""

    k: int = 4

    needs = Needs()

    def build(self, host: Host) -> LiveDrafter:
        """It needs the size of the vocabulary."""
        return LiveNoise(host.target.spec.vocab_size)


class LiveNoise:
    """Holds nothing."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Chains of the whole budget."""
        return [self._draft(ctx, budget) for ctx, budget in zip(contexts, budgets, strict=True)]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Nothing to learn."""

    def release(self, request_id: str) -> None:
        """Nothing was kept."""

    def _draft(self, ctx: DraftContext, budget: int) -> Draft:
        start = len(ctx.tokens)
        ids = (STRIDE * (start + depth) % self._vocab_size for depth in range(budget))
        return Draft.chain(map(PointMass, ids))
