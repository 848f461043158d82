"""No draft: plain decoding, on the very path that speculation takes."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.drafters.base import DraftContext, PerContext, register
from paceline.tree import NO_DRAFT, Draft

OFF = "none"


@register(OFF)
@dataclass(frozen=True)
class NoDraft(PerContext):
    """Propose nothing."""

    k: int = 0

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        """The empty draft."""
        del ctx, budget
        return NO_DRAFT
