"""The block rule: a chain is accepted by the joint ratio of its prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.chooser import Chooser, Law, Purpose
from paceline.tree import Draft
from paceline.verify.laws import Weights, as_law, at, draft_law, excess, require_chain, residual
from paceline.verify.rule import Sampling, Verdict


class Block(Sampling):
    """Sun et al. 2024 (arXiv 2403.10444, algorithm 2); never accepts less than the token rule."""

    name = "block"
    trees = False

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """Keep the longest prefix whose coin comes up; then draw from the residual of its ratio.

        The coins are independent, so flipping them from the longest prefix down finds the same one.
        """
        require_chain(self.name, draft)
        p = [as_law(row) for row in target_probs]
        q = [draft_law(draft, trial) for (trial,) in draft.trials[:-1]]
        w: list[Any] = [1]
        for i, x in enumerate(draft.tree.tokens):
            w.append(min(1, w[i] * p[i][x] / q[i][x]))

        tau = k = len(draft)
        while tau > 0:
            h = w[k] if tau == k else coin(w[tau], p[tau], q[tau])
            if chooser.bernoulli(h, at(chooser, draft, tau, Purpose.ACCEPT)):
                break
            tau -= 1
        law = p[k] if tau == k else residual(p[tau], q[tau], w[tau])
        token = chooser.categorical(law, at(chooser, draft, tau, Purpose.RESIDUAL))
        return Verdict(draft.tree.path(tau), token)


def coin(w: Any, p: Weights, q: Any) -> Any:
    """h = s / (s + 1 - w), where s is the mass of max(0, w p - q)."""
    s = excess(p, q, w).sum()
    return s / (s + 1 - w) if s > 0 else 0


rule = Block()
