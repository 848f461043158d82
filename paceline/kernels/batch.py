"""One pass over a model: flat rows of several requests, and where their keys and values lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Segment:
    """One request's rows within a pass: rows start .. start + rows of the flat batch.

    Row i attends to the whole context, then to its ancestors within the segment, then to itself:
    keys in the order of their logical position on the row's own path. A layer's keys and values of
    all rows of the pass are written before any is read, so a context may lie in another segment.
    """

    start: int
    context_slots: Tensor
    """[context] int64: slots of the tokens already in the cache, in logical order."""
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
    """What one forward pass computes. T rows, N of them with logits."""

    ids: Tensor
    """ids[T] int64."""
    positions: Tensor
    """positions[T] int64: logical position of the row's token (tree siblings share one)."""
    slots: Tensor
    """slots[T] int64: where the row's key and value are written."""
    segments: tuple[Segment, ...]
    logit_rows: Tensor
    """logit_rows[N] int64: rows whose logits are wanted."""
    hidden_layers: tuple[int, ...] = ()
    """Layers whose output hidden states are wanted."""

    def to(self, device: str) -> Batch:
        """The batch on a device."""
        return Batch(
            self.ids.to(device),
            self.positions.to(device),
            self.slots.to(device),
            tuple(replace(s, context_slots=s.context_slots.to(device)) for s in self.segments),
            self.logit_rows.to(device),
            self.hidden_layers,
        )


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
