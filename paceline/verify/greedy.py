"""Temperature 0: the target's argmax, whatever was drafted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.chooser import Chooser, Draw, Keyed, Law
from paceline.tree import Draft
from paceline.verify.laws import as_law, as_rows
from paceline.verify.rule import Laws, Verdict, follow, rows_by_draft


def best(law: Law) -> int:
    """The most likely id of law[V], the lowest among equals."""
    return int(as_law(law).argmax())


class Greedy:
    """The token rule on one-hot laws: accept while the draft equals the target's argmax."""

    name = "greedy"
    trees = True
    sampled = False
    reproducible = True
    one_hot = True

    def draw(self, chooser: Chooser, law: Law, draw: Draw) -> int:
        """The drafter's argmax."""
        del chooser, draw
        return best(law)

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """Follow the argmax of each row."""
        del chooser
        return follow(draft, lambda row: best(target_probs[row]))

    def verify_batch(
        self, drafts: Sequence[Draft], target_probs: Laws, choosers: Sequence[Keyed]
    ) -> list[Verdict]:
        """All argmaxes of target_probs[N, V] at once, then walks over ids."""
        del choosers
        laws = as_rows(target_probs)
        dense = isinstance(laws, np.ndarray)
        tokens = rows_by_draft(drafts, laws.argmax(1).tolist() if dense else [*map(best, laws)])
        return [follow(d, own.__getitem__) for d, own in zip(drafts, tokens, strict=True)]


rule = Greedy()
