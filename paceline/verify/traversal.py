"""The traversal rule: a tree is verified from its leaves up, by the ratios of whole paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.chooser import Chooser, Law, Purpose
from paceline.tree import Draft
from paceline.verify.laws import Weights, as_law, at, draft_law, excess
from paceline.verify.rule import Sampling, Verdict


class Traversal(Sampling):
    """Weng et al. 2025 (arXiv 2505.12398, algorithm 1); on a chain it is the block rule."""

    name = "traversal"
    trees = True

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """Accept the first path, leaves first, whose coin comes up; the root's always does."""
        found = Walk(draft, target_probs, chooser).accept(0, 1)
        assert found is not None, "the root is accepted where nothing else is"
        row, p = found
        token = chooser.categorical(p, at(chooser, draft, row, Purpose.RESIDUAL))
        return Verdict(draft.tree.path(row), token)


@dataclass(frozen=True)
class Walk:
    """One verification of one draft."""

    draft: Draft
    target_probs: Sequence[Law]
    chooser: Chooser
    walked: set[int] = field(default_factory=set)
    """Rows whose trials were used: a second trial of the same token has none of its own left."""

    def accept(self, row: int, w: Any, coin: tuple[int, int] | None = None) -> Any:
        """The accepted row at or below `row` and the law of the token after it, or None.

        `w` is min(1, joint ratio) of the path to the row; `coin` is its parent and the ordinal of
        its trial. Every trial of a child that fails leaves of w p what q did not take.
        """
        p = as_law(self.target_probs[row])
        trials = () if row in self.walked else self.draft.trials[row]
        self.walked.add(row)
        for ordinal, trial in enumerate(trials):
            q, x = draft_law(self.draft, trial), trial.token
            child = self.draft.tree.children[row][x]
            found = self.accept(child, min(1, w * p[x] / q[x]), (row, ordinal))
            if found is not None:
                return found
            p, w = left_over(p, q, w)
        if coin is None or self.chooser.bernoulli(w, self._address(*coin)):
            return row, p
        return None

    def _address(self, parent: int, ordinal: int) -> Any:
        return at(self.chooser, self.draft, parent, Purpose.ACCEPT, ordinal)


def left_over(p: Weights, q: Any, w: Any) -> tuple[Weights, Any]:
    """norm(max(0, w p - q)) and s / (s + 1 - w), where s is its mass before it is normalised."""
    over = excess(p, q, w)
    s = over.sum()
    if s == 0:
        return p, w if w == 1 else 0
    over /= s
    return over, s / (s + 1 - w)


rule = Traversal()
