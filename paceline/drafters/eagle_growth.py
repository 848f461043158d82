"""A draft as it grows from an EAGLE layer: a sampled chain, or a tree of point masses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from torch import Tensor

from paceline.chooser import SparseLaw
from paceline.drafters.base import DraftContext
from paceline.models.fields import Fields
from paceline.sampling import RowLaw
from paceline.tree import Draft, DraftBuilder
from paceline.verify.laws import as_law

RUNNERS = 64
"""Ids that run the race for a node's children: the likeliest, since a race costs by the id."""


class Growth(Protocol):
    """One request's draft as it grows; rows count from 1, row 0 is the last committed token."""

    ctx: DraftContext
    budget: int

    def take(self, row: int, logits: Tensor, feature: Tensor) -> None:
        """What the layer says behind a row: logits[V], and the feature[E] of the rows below it."""

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


@dataclass(frozen=True)
class Calibration:
    """What a confidence is worth: how often tokens drafted with it were right."""

    confidences: tuple[float, ...] = (0.0, 1.0)
    rates: tuple[float, ...] = (0.0, 1.0)

    @classmethod
    def read(cls, config: Fields, key: str) -> Calibration:
        """From config.json; raises ModelFileError."""
        if key not in config:
            return cls()
        rows = config.shares(key)
        if len(rows) != 2 or len(rows[0]) != len(rows[1]) or sorted(rows[0]) != rows[0]:
            raise config.fault(key, "is not two lists of one length, the first rising")
        return cls(tuple(rows[0]), tuple(rows[1]))

    def __call__(self, confidences: Sequence[float]) -> list[float]:
        """The rate of each confidence, linearly between those that were measured."""
        found: list[float] = np.interp(confidences, self.confidences, self.rates).tolist()
        return found


class Chain:
    """Each token is drawn as the rule wants it from the layer's law behind the ones before."""

    def __init__(self, ctx: DraftContext, budget: int) -> None:
        self.ctx, self.budget = ctx, budget
        self._builder = DraftBuilder()
        self._tokens: list[int] = []
        self._features: list[Tensor] = []

    def take(self, row: int, logits: Tensor, feature: Tensor) -> None:
        """Draw the next token."""
        law = self.ctx.law(logits, tuple(self._tokens))
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

    At each depth the likeliest new nodes, at most `width`, are run and sprout; of all candidates
    the `budget` likeliest are the draft. They are ranked and cut by value: point masses, therefore.
    """

    ctx: DraftContext
    budget: int
    width: int
    max_depth: int
    min_prob: float
    calibration: Calibration
    nodes: list[Node] = field(default_factory=list)
    """Node i is row i + 1."""
    _fresh: list[int] = field(default_factory=list)
    _features: dict[int, Tensor] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)

    def take(self, row: int, logits: Tensor, feature: Tensor) -> None:
        """Sprout children, the likeliest under the row."""
        self._features[row] = feature
        depth = self.nodes[row - 1].depth if row else 0
        chance = self.nodes[row - 1].chance if row else 1.0
        tokens, confidences = self._children(row, depth, logits)
        for token, rate in zip(tokens, self.calibration(confidences), strict=True):
            if chance * rate >= self.min_prob:
                self.nodes.append(Node(token, row, depth + 1, chance * rate))
                self._fresh.append(len(self.nodes))

    def _children(self, row: int, depth: int, logits: Tensor) -> tuple[list[int], list[float]]:
        """The `width` likeliest tokens; under a rule with shared noise, the first in its race."""
        ctx, count = self.ctx, self.width
        if ctx.params.temperature == 0:
            found = logits.softmax(-1).topk(min(count, len(logits)))
            return found.indices.tolist(), found.values.tolist()
        law = ctx.law(logits, tuple(self.token(r) for r in (*self.ancestors(row), row) if r))
        best = likeliest(law, RUNNERS if ctx.rule.reproducible else count)
        probs: list[float] = np.sort(best.probs)[::-1][:count].tolist()
        if ctx.rule.reproducible:
            drawn = [ctx.choose(best, row, depth, rank) for rank in range(len(probs))]
            tokens = list(dict.fromkeys(drawn))
        else:
            tokens = best.ids[np.argsort(-best.probs, kind="stable")].tolist()
        return tokens, probs[: len(tokens)]

    def next_rows(self) -> list[int]:
        """The likeliest of the new nodes that are among the best of all, while slots are free."""
        best = set(self._best())
        room = min(self.width, self.budget - 1 - len(self._places))
        grown = [row for row in self._fresh if row in best]
        grown = [row for row in grown if self.nodes[row - 1].depth < self.max_depth]
        self._fresh = []
        chosen = sorted(grown, key=lambda row: -self.nodes[row - 1].chance)[: max(room, 0)]
        for row in chosen:
            self._places[row] = len(self._places)
        return chosen

    def _best(self) -> list[int]:
        """The rows of the draft so far; no node is likelier than its parent, which is older."""
        order = sorted(range(len(self.nodes)), key=lambda node: -self.nodes[node].chance)
        return [node + 1 for node in order[: self.budget]]

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
