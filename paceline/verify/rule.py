"""What a verification rule is. Each rule is one file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from paceline.chooser import Chooser, Draw, Keyed, Law
from paceline.tree import Draft
from paceline.verify.laws import as_rows

Laws = Tensor | Sequence[Law]
"""Laws [N, V]: a float64 tensor, or one law a row, some of them sparse."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pass commits: the tokens on the accepted path, then one more."""

    path: tuple[int, ...]
    """Accepted rows of the draft's tree, root excluded, in order."""
    token: int
    """The token after the path: drawn from the residual, or the bonus token."""

    def tokens(self, draft: Draft) -> tuple[int, ...]:
        """The tokens themselves."""
        return (*(draft.tree.tokens[row - 1] for row in self.path), self.token)


class Rule(Protocol):
    """Decides which drafted tokens stand, so that the output keeps the target's law exactly."""

    name: str
    trees: bool
    """Whether it verifies drafts that are not chains."""
    sampled: bool
    """Whether tokens from `draw` are `Sampled` trials; else they are point masses to it."""
    reproducible: bool
    """Whether the text depends on prompt, settings and seed alone, whatever is drafted."""
    one_hot: bool
    """Whether it keeps one-hot laws only: temperature 0."""

    def draw(self, chooser: Chooser, law: Law, draw: Draw) -> int:
        """Draw a drafter's token from its law[V], as this rule wants it drawn."""

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """The specification: target_probs[row] is the target's law after that row of the tree.

        Works on any numbers: fractions in a proof, float64 in production.

        Raises:
            ConfigError: the draft is a tree and the rule verifies chains.
        """

    def verify_batch(
        self, drafts: Sequence[Draft], target_probs: Laws, choosers: Sequence[Keyed]
    ) -> list[Verdict]:
        """The fast path: laws target_probs[N, V], len(draft) + 1 rows a draft, in order.

        For the same keys it returns exactly what verify_one returns.
        """


class PerDraft:
    """Base of rules whose specification touches no more of a law than it must.

    Then the fast path is the specification itself on rows that are not copied.
    """

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """The specification."""
        raise NotImplementedError

    def verify_batch(
        self, drafts: Sequence[Draft], target_probs: Laws, choosers: Sequence[Keyed]
    ) -> list[Verdict]:
        """Verify each draft on its rows of target_probs[N, V]."""
        rows = rows_by_draft(drafts, as_rows(target_probs))
        return [self.verify_one(*each) for each in zip(drafts, rows, choosers, strict=True)]


class Sampling(PerDraft):
    """Base of rules whose drafter's tokens are draws from its law, and whose text they shape."""

    sampled = True
    reproducible = False
    one_hot = False

    def draw(self, chooser: Chooser, law: Law, draw: Draw) -> int:
        """A draw from the drafter's law."""
        return chooser.categorical(law, draw)


def rows_by_draft(drafts: Sequence[Draft], rows: Any) -> Iterator[Any]:
    """Split what has one entry a row, len(draft) + 1 of them a draft."""
    start = 0
    for draft in drafts:
        yield rows[start : start + len(draft) + 1]
        start += len(draft) + 1


def follow(draft: Draft, target: Callable[[int], int]) -> Verdict:
    """Walk down the tree along the target's own tokens; target(row) is its token after a row."""
    path: list[int] = []
    row = 0
    while True:
        token = target(row)
        child = draft.tree.children[row].get(token)
        if child is None:
            return Verdict(tuple(path), token)
        path.append(row := child)
