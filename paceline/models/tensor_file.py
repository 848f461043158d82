"""Tensors stored in a mapped file, and how one becomes a torch tensor without a second copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.models.dequantize import Bytes, Format
from paceline.models.mapped_file import MappedFile

_CHUNK_VALUES = 1 << 16
"""Values decoded at a time: few enough for a core's cache and for malloc to reuse memory."""


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in its file and what it is."""

    format: Format
    shape: tuple[int, ...]
    offset: int
    """Of its first byte in the file."""

    @property
    def num_values(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self.num_values // self.format.block_values * self.format.block_bytes


@dataclass(frozen=True, eq=False)
class TensorFile:
    """A checked file: every stored tensor lies within it."""

    mapped: MappedFile
    tensors: Mapping[str, StoredTensor]

    def renamed(self, rename: Callable[[str], str]) -> TensorFile:
        """The same tensors by other names."""
        return TensorFile(self.mapped, {rename(name): t for name, t in self.tensors.items()})

    def load(self, name: str, dtype: torch.dtype) -> Tensor:
        """Decode one tensor into memory of its own, as float32 and then rounded to `dtype`.

        Uninitialised memory is safe here: the chunks assign each value exactly once, and an error
        in any of them is raised. NaN beforehand would cost a second pass over the memory.
        """
        stored = self.tensors[name]
        out = torch.empty(stored.num_values, dtype=dtype)
        starts = range(0, stored.num_values, _CHUNK_VALUES)
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(self._decoder(stored, out), starts))
        return out.view(stored.shape)

    def rows(self, name: str, start: int, stop: int) -> Bytes:
        """rows[stop − start, bytes] uint8: some rows of a matrix as they are stored."""
        offset, size = self._row_bytes(name, start, stop)
        return self.mapped.view(offset, size).reshape(stop - start, -1)

    def forget_rows(self, name: str, start: int, stop: int) -> None:
        """Give back the pages of some rows of a matrix."""
        self.mapped.forget(*self._row_bytes(name, start, stop))

    def _row_bytes(self, name: str, start: int, stop: int) -> tuple[int, int]:
        stored = self.tensors[name]
        row_bytes = stored.size_bytes // stored.shape[0]
        return stored.offset + start * row_bytes, (stop - start) * row_bytes

    def _decoder(self, stored: StoredTensor, out: Tensor) -> Callable[[int], None]:
        """Decodes the chunk that starts at a value, into `out`, and drops its pages."""
        kind = stored.format

        def decode(start: int) -> None:
            stop = min(start + _CHUNK_VALUES, stored.num_values)
            first, count = start // kind.block_values, (stop - start) // kind.block_values
            offset, size = stored.offset + first * kind.block_bytes, count * kind.block_bytes
            blocks = self.mapped.view(offset, size).reshape(count, kind.block_bytes)
            out[start:stop] = torch.from_numpy(kind.decode(blocks).reshape(-1))
            self.mapped.forget(offset, size)

        return decode
