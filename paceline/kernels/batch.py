"""One pass over a model: flat rows of several requests, and where their keys and values lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
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
    features: Tensor | None = None
    """features[T, W] float32, for a program that takes some."""


@dataclass(frozen=True, eq=False)
class PassOutput:
    """What one forward pass returns."""

    logits: Tensor
    """logits[N, V] float32; valid until the next pass."""
    hidden: dict[int, Tensor]
    """layer -> hidden[T, E]."""


@dataclass(frozen=True, eq=False)
class KVTensors:
    """Keys and values of all layers by slot; a pass writes its rows' slots.

    Numbers of int8 have a scale per slot and head: x = scale · q, |q| <= 127.
    """

    keys: Tensor
    """keys[L, S, G, D]."""
    values: Tensor
    """values[L, S, G, D]."""
    key_scales: Tensor | None = None
    """key_scales[L, S, G] float32, of int8 keys."""
    value_scales: Tensor | None = None
    """value_scales[L, S, G] float32, of int8 values."""

    @classmethod
    def zeros(
        cls, shape: tuple[int, int, int, int], dtype: torch.dtype, device: str = "cpu"
    ) -> KVTensors:
        """Room for [L, S, G, D]."""
        keys, values = (torch.zeros(shape, dtype=dtype, device=device) for _ in "kv")
        if dtype != torch.int8:
            return cls(keys, values)
        return cls(keys, values, *(torch.zeros(shape[:3], device=device) for _ in "kv"))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Everything that belongs to a slot, [L, S, …]."""
        found = (self.keys, self.values, self.key_scales, self.value_scales)
        return tuple(tensor for tensor in found if tensor is not None)

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Keep keys and values [T, G, D] in slots[T]."""
        _write(self.keys[layer], self.key_scales, layer, slots, key)
        _write(self.values[layer], self.value_scales, layer, slots, value)

    def read(self, layer: int, slots: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values [T, G, D] of slots[T] as they are kept."""
        key = _read(self.keys[layer], self.key_scales, layer, slots, dtype)
        return key, _read(self.values[layer], self.value_scales, layer, slots, dtype)


def _write(kept: Tensor, scales: Tensor | None, layer: int, slots: Tensor, x: Tensor) -> None:
    if scales is None:
        kept[slots] = x.to(kept.dtype)
        return
    scale = x.float().abs().amax(-1) / 127
    codes = torch.round(x.float() / scale[..., None].clamp_min(1e-30))
    scales[layer, slots], kept[slots] = scale, codes.to(torch.int8)


def _read(
    kept: Tensor, scales: Tensor | None, layer: int, slots: Tensor, dtype: torch.dtype
) -> Tensor:
    found = kept[slots].float() if scales is not None else kept[slots]
    return (found if scales is None else found * scales[layer, slots, :, None]).to(dtype)
