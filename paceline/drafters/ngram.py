"""Prompt lookup: propose what followed the last tokens where they stood before.

Saxena 2023, "Prompt Lookup Decoding". Sizes are vLLM's prompt_lookup_min and prompt_lookup_max.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.errors import ConfigError
from paceline.tree import NO_DRAFT, Draft, PointMass

TOKEN_BITS = 32


@register("ngram")
@dataclass(frozen=True)
class Ngram:
    """Options: the draft length and the sizes of the n-grams that are looked up.

    Raises:
        ConfigError: unless k >= 1 and 1 <= min_n <= max_n.
    """

    k: int = 8
    min_n: int = 2
    max_n: int = 4

    needs = Needs()

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.k < 1 or not 1 <= self.min_n <= self.max_n:
            raise ConfigError(
                "Drafter 'ngram' wants k >= 1 and 1 <= min_n <= max_n,"
                f" not k={self.k}, min_n={self.min_n}, max_n={self.max_n}."
            )

    def build(self, host: Host) -> LiveDrafter:
        """It needs nothing of the engine."""
        del host
        return LiveNgram(self.min_n, self.max_n)


class LiveNgram:
    """Holds one index a request; a step costs its new tokens and its draft, whatever the prompt."""

    def __init__(self, min_n: int, max_n: int) -> None:
        self._sizes = range(min_n, max_n + 1)
        self._indexes: dict[str, NgramIndex] = {}

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """A chain of `budget` tokens a context, or none where nothing matches."""
        return [self._draft(ctx, budget) for ctx, budget in zip(contexts, budgets, strict=True)]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Nothing to learn: the next proposal reads the tokens themselves."""

    def release(self, request_id: str) -> None:
        """Drop the request's index."""
        self._indexes.pop(request_id, None)

    def _draft(self, ctx: DraftContext, budget: int) -> Draft:
        index = self._indexes.setdefault(ctx.request_id, NgramIndex(self._sizes))
        index.extend(ctx.tokens)
        start = index.find()
        if start is None:
            return NO_DRAFT
        return Draft.chain(PointMass(t) for t in copy(ctx.tokens, start, budget))


class NgramIndex:
    """For every n-gram of a text that only grows, where its latest occurrence was followed."""

    def __init__(self, sizes: range) -> None:
        self._masks = [(n, (1 << TOKEN_BITS * n) - 1) for n in sizes]
        self._followers: list[dict[int, int]] = [{} for _ in sizes]
        self._window = 0
        """The last max(sizes) tokens, packed into one integer."""
        self._length = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Take in what was appended to `tokens` since the last call."""
        full = self._masks[-1][1]
        for token in tokens[self._length :]:
            for (n, mask), followers in zip(self._masks, self._followers, strict=True):
                if self._length >= n:
                    followers[self._window & mask] = self._length
            self._window = (self._window << TOKEN_BITS | token) & full
            self._length += 1

    def find(self) -> int | None:
        """Where the latest earlier occurrence of the longest known last n-gram was followed."""
        for (_, mask), followers in zip(self._masks[::-1], self._followers[::-1], strict=True):
            if (start := followers.get(self._window & mask)) is not None:
                return start
        return None


def copy(tokens: Sequence[int], start: int, count: int) -> list[int]:
    """`count` tokens from `start` on; past the end of the text the copy goes on from itself."""
    copied = list(tokens[start : start + count])
    for _ in range(count - len(copied)):
        copied.append(copied[len(copied) - (len(tokens) - start)])
    return copied
