"""Which rows of an EAGLE layer's keys and values are there, and what those to come are made of.

Row j of a request is token t_j beside the feature of position j - 1; there is no row 0. It is
written once, from the target's own states, to the slot of position j in the draft's tensors; the
target's block ids serve both. States are kept as they come; the features of many rows are made at
once, and those of a request that never drafts not at all.

A block whose rows are all there is marked with the pool's generation and the states of its last
position, which the row after it needs. So a request that the prefix cache spares a prefix goes on
where the rows end; where they are missing (another drafter ran the prefix) it restarts cold, with
the first token it sees run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.cache import BlockPool, Slots
from paceline.drafters.base import DraftContext


@dataclass(eq=False)
class Known:
    """What is known of one request."""

    preemptions: int
    first: int
    """The first row there is: 1, or later after a cold start."""
    filled: int
    """Rows first .. filled - 1 are written."""
    pending: list[Tensor]
    """states[n, S], row by row from `filled` on; S is E for each of the layers that are read."""
    ready: int
    """Rows whose states are known, up to this one."""
    edges: dict[int, Tensor] = field(default_factory=dict)
    """Number of a block of the request, not marked yet -> states[S] of its last position."""


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """The books of all requests and blocks."""

    pool: BlockPool
    requests: dict[str, Known] = field(default_factory=dict)
    marks: dict[int, tuple[int, Tensor]] = field(default_factory=dict)
    """Block -> generation in which its rows were written, states[S] of its last position."""

    def add(self, ctx: DraftContext, start: int, states: Tensor) -> Known:
        """Take in states[n, S] of the positions from `start` on."""
        known = self.requests.get(ctx.request_id)
        if known is None or known.preemptions != ctx.preemptions or known.ready != start + 1:
            known = self.requests[ctx.request_id] = self._begin(ctx, start)
        known.pending.append(states)
        known.ready += len(states)
        size = self.pool.block_tokens
        for block in range(-(-(start + 1) // size) - 1, (start + len(states)) // size):
            known.edges[block] = states[(block + 1) * size - 1 - start].clone()
        return known

    def _begin(self, ctx: DraftContext, start: int) -> Known:
        """The state before position `start`, the first that the request's passes run."""
        size = self.pool.block_tokens
        marks = [self.marks.get(block) for block in ctx.table.blocks[: start // size]]
        generations = [self.pool.generation[block] for block in ctx.table.blocks[: start // size]]
        if start == 0:
            return Known(ctx.preemptions, 1, 1, [], 1)
        valid = [m is not None and m[0] == g for m, g in zip(marks, generations, strict=True)]
        last = marks[-1] if marks else None
        if start % size or not all(valid) or last is None:
            return Known(ctx.preemptions, start + 1, start + 1, [], start + 1)
        return Known(ctx.preemptions, 1, start, [last[1][None]], start + 1)

    def take(self, known: Known, count: int) -> Tensor:
        """The states[count, S] of the next rows, which are written from now on."""
        joined = torch.cat(known.pending)
        known.pending = [joined[count:]] if len(joined) > count else []
        known.filled += count
        return joined[:count]

    def mark(self, ctx: DraftContext, known: Known) -> None:
        """Mark the blocks whose rows are all written, from the text's beginning on."""
        size = self.pool.block_tokens
        for block in [b for b in known.edges if (b + 1) * size <= known.filled]:
            states = known.edges.pop(block)
            if known.first == 1 and block < len(ctx.table.blocks):
                own = ctx.table.blocks[block]
                self.marks[own] = self.pool.generation[own], states

    def context(self, ctx: DraftContext, known: Known) -> Slots:
        """Slots of the rows that are written."""
        return ctx.table.slots(known.first, known.filled)


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of one request in a pass of the layer: a chain behind a context."""

    tokens: Sequence[int]
    start: int
    """Position of the first row."""
    slots: Slots
    """Where the rows are written."""
    context: Slots
    features: Tensor
    """features[n, E]."""
