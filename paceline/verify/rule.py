"""What a verification rule is. Each rule is one file beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from paceline.chooser import Chooser, Draw, Keyed, Law
from paceline.tree import Draft


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pass commits: the tokens on the accepted path, then one more."""

    path: tuple[int, ...]
    """Accepted rows of the draft's tree, root excluded, in order."""
    token: int
    """The token after the path: drawn from the residual, or the bonus token."""


class Rule(Protocol):
    """Decides which drafted tokens stand, so that the output keeps the target's law exactly."""

    name: str
    trees: bool
    """Whether it verifies drafts that are not chains."""
    sampled: bool
    """Whether tokens from `draw` are `Sampled` trials; else they are point masses to it."""

    def draw(self, chooser: Chooser, law: Law, draw: Draw) -> int:
        """Draw a drafter's token from its law[V], as this rule wants it drawn."""

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """The specification: target_probs[row] is the target's law after that row of the tree.

        Works on any numbers: fractions in a proof, float64 in production.
        """

    def verify_batch(
        self, drafts: Sequence[Draft], target_probs: Tensor, choosers: Sequence[Keyed]
    ) -> list[Verdict]:
        """The fast path: target_probs[N, V] float64, len(draft) + 1 rows a draft, in order.

        For the same keys it returns exactly what verify_one returns.
        """


def draft_law(draft: Draft, trial: Any) -> Law:
    """The law[V] that a sampled trial was drawn from."""
    law: Law = draft.draft_probs[trial.law]
    return law
