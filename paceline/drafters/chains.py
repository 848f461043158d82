"""Chains that a draft model grows, one token a pass, all requests' together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

import torch
from torch import Tensor

from paceline.cache import BlockTable, Slots
from paceline.drafters.base import DraftContext
from paceline.kernels.batch import Batch
from paceline.runtime import Rows, Runner, pack, pack_next
from paceline.sampling import RowLaw, laws_and_failures
from paceline.tree import Draft, PointMass, Sampled


class Vocabulary(Protocol):
    """How a draft's ids and the target's correspond."""

    def to_target(self, logits: Tensor) -> Tensor:
        """logits[N, own V] as logits[N, V] of the target's ids; -inf where the draft has none."""

    def to_own(self, token: int) -> int:
        """The draft's id of one of the target's ids that has mass in `to_target`."""


@dataclass(frozen=True)
class SameIds:
    """Both mean the same by each id; only the numbers of rows may differ."""

    target_size: int

    def to_target(self, logits: Tensor) -> Tensor:
        """Cut or pad; padding ids have no mass."""
        missing = self.target_size - logits.shape[-1]
        if not missing:
            return logits
        return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)

    def to_own(self, token: int) -> int:
        """Itself."""
        return token


class Chain:
    """One request's draft as it grows."""

    def __init__(
        self, ctx: DraftContext, budget: int, cached: int, ids: Sequence[int], table: BlockTable
    ) -> None:
        """`ids` is the text so far as the draft reads it; of the first `cached`, `table` has the
        keys and values.
        """
        self.ctx, self.budget = ctx, budget
        self.tokens: list[int] = []
        """What was drawn, in the target's ids."""
        self._laws: list[RowLaw] = []
        self._ids, self._table, self._cached = ids, table, cached

    @property
    def missing(self) -> int:
        """Tokens of the text that the draft has not been fed."""
        return len(self._ids) - self._cached

    def feed(self, count: int) -> Rows:
        """The rows of the next `count` tokens of the text; the last of all has logits."""
        start, self._cached = self._cached, self._cached + count
        return Rows(
            tokens=self._ids[start : self._cached],
            start=start,
            slots=self._table.slots(0, self._cached),
            logit_tokens=int(not self.missing),
        )

    def slots(self, drafted: int) -> Slots:
        """The slots of the text and of so many drafted tokens."""
        return self._table.slots(0, len(self._ids) + drafted)

    def extend(self, law: RowLaw) -> None:
        """Draw the next token from law[V]."""
        depth = len(self.tokens)
        self.tokens.append(self.ctx.choose(law, parent=depth, depth=depth))
        self._laws.append(law)

    def draft(self) -> Draft:
        """What was drawn, as the rule wants it told."""
        if not self.ctx.rule.sampled:
            return Draft.chain(map(PointMass, self.tokens))
        return Draft.chain(map(Sampled, self.tokens, range(len(self.tokens))), self._laws)


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two texts have in common from their beginnings on."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


@dataclass(frozen=True, eq=False)
class Grower:
    """Runs a draft model for many chains at once."""

    runner: Runner
    vocabulary: Vocabulary
    max_rows: int

    def grow(self, chains: Sequence[Chain]) -> None:
        """Run the draft once a depth, drawing a token a chain from each pass."""
        later = []
        for depth in range(1, max(chain.budget for chain in chains)):
            active = [chain for chain in chains if chain.budget > depth]
            later.append((active, pack_next([chain.slots(depth) for chain in active])))
        self._fill(chains)
        self._extend(chains, pack([chain.feed(chain.missing) for chain in chains]))
        for active, batch in later:
            batch.ids[:] = [self.vocabulary.to_own(chain.tokens[-1]) for chain in active]
            self._extend(active, batch)

    def _extend(self, chains: Sequence[Chain], batch: Batch) -> None:
        """Run a pass whose logits are the chains', and draw the next token of each."""
        logits = self.runner.forward(batch).logits
        params, prefixes = [chain.ctx.params for chain in chains], None
        if any(p.adjusts for p in params):
            prefixes = [chain.ctx.prefix(tuple(chain.tokens)) for chain in chains]
        laws, _ = laws_and_failures(self.vocabulary.to_target(logits), params, prefixes)
        for chain, law in zip(chains, laws, strict=True):
            chain.extend(law)

    def _fill(self, chains: Sequence[Chain]) -> None:
        """Feed what goes beyond the rows of one pass, in passes before it."""
        excess = sum(chain.missing for chain in chains) - self.max_rows
        while excess > 0:
            room, work = min(excess, self.max_rows), list[Rows]()
            for chain in chains:
                if room and chain.missing > 1:
                    work.append(chain.feed(min(chain.missing - 1, room)))
                    room -= len(work[-1].tokens)
            self.runner.forward(pack(work))
            excess -= self.max_rows
