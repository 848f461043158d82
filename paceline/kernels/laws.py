"""Laws of rows of logits by the native library; sampling/pipeline.py says what they are."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.chooser import SparseLaw
from paceline.chooser.race import Floats
from paceline.kernels.library import LawsArgs, LawStruct, ShapeStruct, available, library
from paceline.types import SamplingParams

Narrow = tuple[NDArray[np.int64], Floats]
READABLE = (torch.float32, torch.bfloat16, torch.float16)


def serves(logits: Tensor) -> bool:
    """Whether the library is there and reads such logits: on a CPU, no wider than float32."""
    return logits.is_cpu and logits.dtype in READABLE and logits.shape[-1] > 0 and available()


def native_laws(
    logits: Tensor, params: Sequence[SamplingParams]
) -> list[Floats | SparseLaw] | None:
    """The laws of logits[N, V] under params[N], or None where a row has none.

    Raises:
        ValueError: the library does not read such logits, or the settings are not one a row.
        MemoryError: there is no room to work in.
    """
    if not serves(logits) or logits.dim() != 2 or len(params) != len(logits):
        raise ValueError(f"No native laws of {len(params)} rows of {logits.dtype} {logits.shape}.")
    rows, (N, V) = logits.float().contiguous(), logits.shape
    dense = np.empty((sum(not cuts(p) for p in params), V))
    ids, probs = _room.take(sum(map(cuts, params)), V)
    wide, narrow = iter(dense), iter(range(len(ids)))
    rooms = [(ids[n := next(narrow)], probs[n]) if cuts(p) else next(wide) for p in params]
    laws = (LawStruct * N)(*map(_law_struct, rooms))
    shapes = (ShapeStruct * N)(
        *(ShapeStruct(p.temperature, p.min_p, p.top_p, p.top_k) for p in params)
    )
    arguments = LawsArgs(rows.data_ptr(), V, V, ctypes.addressof(shapes), laws, N)
    if library().pl_laws(ctypes.byref(arguments)):
        raise MemoryError(f"No room for the laws of {N} rows of {V} ids.")
    if not all(law.count for law in laws):
        return None
    return [_law(room, law.count, V) for room, law in zip(rooms, laws, strict=True)]


def cuts(params: SamplingParams) -> bool:
    """Whether ids are cut, so that the law is sparse."""
    truncates = params.top_p < 1 or params.min_p > 0 or params.top_k > 0
    return truncates or params.temperature == 0


class _Room(threading.local):
    """Memory that sparse laws are written to, then copied from; kept, as new pages cost time."""

    def __init__(self) -> None:
        self._ids, self._probs = np.empty(0, np.int64), np.empty(0)

    def take(self, N: int, V: int) -> tuple[NDArray[np.int64], Floats]:
        """ids[N, V] and probs[N, V], of any content, good until the next call."""
        if len(self._ids) < N * V:
            self._ids, self._probs = np.empty(N * V, np.int64), np.empty(N * V)
        return self._ids[: N * V].reshape(N, V), self._probs[: N * V].reshape(N, V)


_room = _Room()


def _law_struct(room: Floats | Narrow) -> LawStruct:
    if isinstance(room, np.ndarray):
        return LawStruct(dense=room.ctypes.data)
    return LawStruct(ids=room[0].ctypes.data, probs=room[1].ctypes.data)


def _law(room: Floats | Narrow, count: int, size: int) -> Floats | SparseLaw:
    if isinstance(room, np.ndarray):
        return room
    return SparseLaw(room[0][:count].copy(), room[1][:count].copy(), size)
