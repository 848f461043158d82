"""The token rule: each drafted token is accepted or rejected by itself."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.chooser import Chooser, Law, Purpose
from paceline.tree import Draft
from paceline.verify.laws import as_law, at, draft_law, require_chain, residual
from paceline.verify.rule import Sampling, Verdict


class Token(Sampling):
    """Leviathan, Kalman, Matias 2023 (arXiv 2211.17192, algorithm 1); Chen et al. (2302.01318)."""

    name = "token"
    trees = False

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """Accept x with min(1, p(x)/q(x)); at the first rejection draw from the residual."""
        require_chain(self.name, draft)
        p = as_law(target_probs[0])
        accepted = 0
        for (trial,) in draft.trials[:-1]:
            q, x = draft_law(draft, trial), trial.token
            if not chooser.bernoulli(p[x] / q[x], at(chooser, draft, accepted, Purpose.ACCEPT)):
                p = residual(p, q)
                break
            accepted += 1
            p = as_law(target_probs[accepted])
        token = chooser.categorical(p, at(chooser, draft, accepted, Purpose.RESIDUAL))
        return Verdict(draft.tree.path(accepted), token)


rule = Token()
