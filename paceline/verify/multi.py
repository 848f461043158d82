"""The multi rule: the token rule down a tree, where a node's children are tried in turn."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.chooser import Chooser, Law, Purpose
from paceline.tree import Draft
from paceline.verify.laws import Weights, as_law, at, draft_law, residual
from paceline.verify.rule import Sampling, Verdict


class Multi(Sampling):
    """SpecInfer (Miao et al. 2023, arXiv 2305.09781, algorithm 2); Sequoia (2402.12374) for
    siblings without replacement: each names the law it was really drawn from.
    """

    name = "multi"
    trees = True

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """Descend while a trial is accepted; then draw from what the trials left of p."""
        row = 0
        while True:
            child, p = self.try_children(draft, row, as_law(target_probs[row]), chooser)
            if child is None:
                token = chooser.categorical(p, at(chooser, draft, row, Purpose.RESIDUAL))
                return Verdict(draft.tree.path(row), token)
            row = child

    def try_children(
        self, draft: Draft, row: int, p: Weights, chooser: Chooser
    ) -> tuple[int | None, Weights]:
        """Accept trial x with min(1, p(x)/q(x)), or go on with the residual; (child or None, p)."""
        for ordinal, trial in enumerate(draft.trials[row]):
            q, x = draft_law(draft, trial), trial.token
            if chooser.bernoulli(p[x] / q[x], at(chooser, draft, row, Purpose.ACCEPT, ordinal)):
                return draft.tree.children[row][x], p
            p = residual(p, q)
        return None, p


rule = Multi()
