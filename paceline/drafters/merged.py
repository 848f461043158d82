"""Merged drafts: one tree from several sources, `suffix+model:PATH`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.drafters.base import DraftContext, register
from paceline.drafters.joint import Joint, Sources, is_drawn, of_source
from paceline.errors import ConfigError
from paceline.tree import Draft, DraftBuilder, PointMass
from paceline.verify.laws import as_law


@register("merged")
@dataclass(frozen=True)
class Merged(Joint):
    """Options of merged drafts.

    Raises:
        ConfigError: k < 1.
    """

    k: int = 8
    """Nodes of a draft, those of all sources together."""

    def __post_init__(self) -> None:
        """Check the range."""
        if self.k < 1:
            raise ConfigError(f"Drafter 'merged' wants k >= 1, not {self.k}.")

    def propose(
        self, sources: Sources, contexts: Sequence[DraftContext], budgets: Sequence[int]
    ) -> list[Draft]:
        """Ask one source after the other; siblings are tried in the order of the sources.

        A source may use its even share of what is left, as far as its own k goes. What it did not
        use is the next one's, unless it sampled: then how much it used may depend on what it drew,
        and whether a later trial exists must not (the discard rule).
        """
        builders, left = [DraftBuilder() for _ in contexts], list(budgets)
        for number, source in enumerate(sources):
            shares = [min(-(-rest // (len(sources) - number)), source.k) for rest in left]
            asked = [i for i, share in enumerate(shares) if share]
            own = [of_source(contexts[i], number) for i in asked]
            drafts = source.propose(own, [shares[i] for i in asked]) if asked else []
            for i, draft in zip(asked, drafts, strict=True):
                added = graft(builders[i], draft)
                left[i] -= shares[i] if is_drawn(draft) else added
        return [builder.build() for builder in builders]


def graft(builder: DraftBuilder, draft: Draft) -> int:
    """Add a draft's trials to a growing one; return how many rows that took.

    A token that stands there already shares its row, and is a trial of its own.
    """
    before, rows = len(builder), {0: 0}
    for row, trials in enumerate(draft.trials):
        for trial in trials:
            child = draft.tree.children[row][trial.token]
            if isinstance(trial, PointMass):
                rows[child] = builder.point(rows[row], trial.token)
            else:
                law = as_law(draft.draft_probs[trial.law])
                rows[child] = builder.sampled(rows[row], trial.token, law)
    return len(builder) - before
