"""One pass over a model: flat rows of several requests, and where their keys and values lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Segment:
    """One request's rows within a pass: rows start .. start + rows of the flat batch.

    Row i attends to the whole context, then to its ancestors within the segment, then to itself:
    keys in the order of their logical position on the row's own path. A layer's keys and values of
    all rows of the pass are written before any is read, so a context may lie in another segment.
    """

    start: int
    context_slots: Numbers
    """[context]: slots of the tokens already in the cache, in logical order."""
    parents: tuple[int, ...]
    """For each row of the segment the index of its parent row in it; -1 for none."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        """Whether each row's parent is the row before it."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))


@dataclass(frozen=True, eq=False)
class Batch:
    """What one forward pass computes, in main memory. T rows, N of them with logits."""

    ids: Numbers
    """ids[T] int64."""
    positions: Numbers
    """positions[T]: logical position of the row's token (tree siblings share one)."""
    slots: Numbers
    """slots[T]: where the row's key and value are written."""
    segments: tuple[Segment, ...]
    logit_rows: Numbers
    """logit_rows[N]: rows whose logits are wanted."""
    hidden_layers: tuple[int, ...] = ()
    """Layers whose output hidden states are wanted."""


@dataclass(frozen=True, eq=False)
class PassOutput:
    """What one forward pass returns; valid until the next pass."""

    logits: Tensor
    """logits[N, V] float32."""
    hidden: dict[int, Tensor]
    """layer -> hidden[T, E]."""


@dataclass(frozen=True, eq=False)
class KVTensors:
    """Keys and values of all layers by slot; a pass writes its rows' slots."""

    keys: Tensor
    """keys[L, S, G, D]."""
    values: Tensor
    """values[L, S, G, D]."""
