"""A draft as it grows from an EAGLE layer: a sampled chain, or a tree of point masses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from paceline.chooser import SparseLaw
from paceline.drafters.base import DraftContext
from paceline.drafters.confidence import Calibration, Recalibration
from paceline.sampling import RowLaw
from paceline.tree import Draft, DraftBuilder
from paceline.verify.laws import as_law

RUNNERS = 64
"""Ids that run the race for a node's children: the likeliest, since a race costs by the id."""


RIVAL = 0.8
"""Share of the likeliest new node's chance from which on another one goes on too. Each takes one of
the free slots, and those spent on the unlikely are missing where a sure path goes deep."""


@dataclass(frozen=True, eq=False)
class Guess:
    """What the layer says of the token behind a row."""

    logits: Tensor
    """logits[V'] of the ids that it drafts from."""
    ids: Tensor | None
    """ids[V']: the target's id of each; None: they are the same."""
    vocab_size: int

    def best(self, count: int) -> tuple[list[int], list[float]]:
        """The likeliest ids, and their probabilities."""
        found = self.logits.softmax(-1).topk(min(count, len(self.logits)))
        places = found.indices.cpu()
        ids = places if self.ids is None else self.ids[places]
        return ids.tolist(), found.values.tolist()

    def full(self) -> Tensor:
        """logits[V]; an id that it cannot draft has no mass."""
        if self.ids is None:
            return self.logits
        full = self.logits.new_full((self.vocab_size,), -torch.inf)
        full[self.ids] = self.logits
        return full


class Growth(Protocol):
    """One request's draft as it grows; rows count from 1, row 0 is the last committed token."""

    ctx: DraftContext
    budget: int

    def take(self, row: int, guess: Guess, feature: Tensor) -> None:
        """What the layer says behind a row, and the feature[E] of the rows below it."""

    def next_rows(self) -> list[int]:
        """The rows to run next; none when the draft is grown."""

    def ancestors(self, row: int) -> list[int]:
        """The drafted rows above a row, the topmost first."""

    def place(self, row: int) -> int:
        """Which of the request's free slots a row that was run, or runs now, is written to."""

    def token(self, row: int) -> int:
        """The token of a row."""

    def feature(self, row: int) -> Tensor:
        """The feature[1, E] that the row's token stands beside."""

    def draft(self) -> Draft:
        """The finished draft."""

    def learn(self, committed: Sequence[int]) -> None:
        """The tokens that the pass committed."""


class Chain:
    """Each token is drawn as the rule wants it from the layer's law behind the ones before."""

    def __init__(self, ctx: DraftContext, budget: int) -> None:
        self.ctx, self.budget = ctx, budget
        self._builder = DraftBuilder()
        self._tokens: list[int] = []
        self._features: list[Tensor] = []

    def take(self, row: int, guess: Guess, feature: Tensor) -> None:
        """Draw the next token."""
        law = self.ctx.law(guess.full(), tuple(self._tokens))
        child = self.ctx.draw(self._builder, row, row, law)
        self._tokens.append(self._builder.token(child))
        self._features.append(feature)

    def next_rows(self) -> list[int]:
        """The last token, until the budget is spent."""
        return [len(self._tokens)] if len(self._tokens) < self.budget else []

    def ancestors(self, row: int) -> list[int]:
        """All before it."""
        return list(range(1, row))

    def place(self, row: int) -> int:
        """In order."""
        return row - 1

    def token(self, row: int) -> int:
        """As drawn."""
        return self._tokens[row - 1]

    def feature(self, row: int) -> Tensor:
        """What came out of the row above."""
        return self._features[row - 1][None]

    def learn(self, committed: Sequence[int]) -> None:
        """Nothing: a chain goes on however sure it is."""

    def draft(self) -> Draft:
        """The chain."""
        return self._builder.build()


@dataclass(frozen=True, eq=False)
class Node:
    """A candidate for the tree."""

    token: int
    parent: int
    depth: int
    chance: float
    """Estimated probability that its whole path is accepted."""


@dataclass(eq=False)
class Tree:
    """The likeliest paths by calibrated confidence (EAGLE-2, arXiv 2406.16858).

    At each depth the likeliest new node and its rivals, at most `width`, sprout; of all candidates
    the `budget` likeliest are the draft. They are ranked and cut by value: point masses, therefore.
    """

    ctx: DraftContext
    budget: int
    width: int
    max_depth: int
    min_prob: float
    calibration: Calibration
    own: Recalibration
    nodes: list[Node] = field(default_factory=list)
    """Node i is row i + 1."""
    _fresh: list[int] = field(default_factory=list)
    _features: dict[int, Tensor] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)

    def take(self, row: int, guess: Guess, feature: Tensor) -> None:
        """Sprout children, the likeliest under the row."""
        self._features[row] = feature
        depth = self.nodes[row - 1].depth if row else 0
        chance = self._chance(row)
        tokens, confidences = self._children(row, depth, guess)
        rates = self.own(self.calibration(depth + 1, confidences))
        for token, rate in zip(tokens, rates, strict=True):
            if chance * rate >= self.min_prob:
                self.nodes.append(Node(token, row, depth + 1, chance * rate))
                self._fresh.append(len(self.nodes))

    def _children(self, row: int, depth: int, guess: Guess) -> tuple[list[int], list[float]]:
        """The `width` likeliest tokens; under a rule with shared noise, the first in its race."""
        ctx, count = self.ctx, self.width
        if ctx.params.temperature == 0:
            return guess.best(count)
        law = ctx.law(guess.full(), tuple(self.token(r) for r in (*self.ancestors(row), row) if r))
        best = likeliest(law, RUNNERS if ctx.rule.reproducible else count)
        probs: list[float] = np.sort(best.probs)[::-1][:count].tolist()
        if ctx.rule.reproducible:
            drawn = [ctx.choose(best, row, depth, rank) for rank in range(len(probs))]
            tokens = list(dict.fromkeys(drawn))
        else:
            tokens = best.ids[np.argsort(-best.probs, kind="stable")].tolist()
        return tokens, probs[: len(tokens)]

    def next_rows(self) -> list[int]:
        """The likeliest of the new nodes and its rivals, if they are among the best of all."""
        best = set(self._best())
        room = min(self.width, self.budget - 1 - len(self._places))
        grown = [row for row in self._fresh if row in best]
        grown = [row for row in grown if self.nodes[row - 1].depth < self.max_depth]
        self._fresh = []
        grown.sort(key=self._chance, reverse=True)
        rivals = [r for r in grown if self._chance(r) >= RIVAL * self._chance(grown[0])]
        chosen = rivals[: max(room, 0)]
        for row in chosen:
            self._places[row] = len(self._places)
        return chosen

    def _best(self) -> list[int]:
        """The rows of the draft so far; no node is likelier than its parent, which is older."""
        order = sorted(range(len(self.nodes)), key=lambda node: -self.nodes[node].chance)
        return [node + 1 for node in order[: self.budget]]

    def _chance(self, row: int) -> float:
        return self.nodes[row - 1].chance if row else 1.0

    def ancestors(self, row: int) -> list[int]:
        """Up its parents."""
        rows: list[int] = []
        while row and (row := self.nodes[row - 1].parent):
            rows.append(row)
        return rows[::-1]

    def place(self, row: int) -> int:
        """In the order in which they run."""
        return self._places[row]

    def token(self, row: int) -> int:
        """As sprouted."""
        return self.nodes[row - 1].token

    def feature(self, row: int) -> Tensor:
        """What came out of its parent."""
        return self._features[self.nodes[row - 1].parent][None]

    def learn(self, committed: Sequence[int]) -> None:
        """What became of each likeliest child on the path that the committed tokens took."""
        row = 0
        for token in committed:
            children = [r for r, node in enumerate(self.nodes, 1) if node.parent == row]
            if not children:
                return
            first = self.nodes[children[0] - 1]
            self.own.learn(first.chance / self._chance(row), token == first.token)
            taken = [child for child in children if self.token(child) == token]
            if not taken:
                return
            row = taken[0]

    def draft(self) -> Draft:
        """The likeliest nodes, the likelier siblings tried first."""
        builder, rows = DraftBuilder(), {0: 0}
        for row in self._best():
            node = self.nodes[row - 1]
            rows[row] = builder.point(rows[node.parent], node.token)
        return builder.build()


def likeliest(law: RowLaw, count: int) -> SparseLaw:
    """The `count` likeliest ids of a law, the others left out."""
    own = as_law(law)
    ids, probs = (own.ids, own.probs) if isinstance(own, SparseLaw) else (None, own)
    order = np.arange(len(probs))
    if len(probs) > count:
        order = np.sort(np.argpartition(-probs, count)[:count])
    order = order[probs[order] > 0]
    return SparseLaw(order if ids is None else ids[order], probs[order], len(own))
