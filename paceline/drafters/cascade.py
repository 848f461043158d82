"""Cascade: a cheap drafter first, a stronger one where it has nothing, `cascade+ngram+model:M`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.drafters.base import DraftContext, register
from paceline.drafters.joint import Joint, Sources, is_drawn, of_source
from paceline.errors import ConfigError
from paceline.tree import NO_DRAFT, Draft


@register("cascade")
@dataclass(frozen=True)
class Cascade(Joint):
    """Options of a cascade.

    Raises:
        ConfigError: k < 1 or least < 1.
    """

    k: int = 8
    """Nodes of a draft."""
    least: int = 2
    """Fewer nodes than this are too few, and the next drafter is asked."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.k < 1 or self.least < 1:
            raise ConfigError(
                f"Drafter 'cascade' wants k >= 1 and least >= 1, not k={self.k},"
                f" least={self.least}."
            )

    def propose(
        self, sources: Sources, contexts: Sequence[DraftContext], budgets: Sequence[int]
    ) -> list[Draft]:
        """Ask each source for the contexts whose draft is too short so far; the longest stays.

        A draft that was sampled stays in any case: to drop it for what came out would bias the
        output.
        """
        drafts = [NO_DRAFT] * len(contexts)
        asked = list(range(len(contexts)))
        for number, source in enumerate(sources):
            own = [of_source(contexts[i], number) for i in asked]
            found = source.propose(own, [budgets[i] for i in asked]) if asked else []
            for i, draft in zip(asked, found, strict=True):
                if is_drawn(draft) or len(draft) > len(drafts[i]):
                    drafts[i] = draft
            asked = [i for i in asked if self._wants_more(drafts[i], budgets[i])]
        return drafts

    def _wants_more(self, draft: Draft, budget: int) -> bool:
        return not is_drawn(draft) and len(draft) < min(self.least, budget)
