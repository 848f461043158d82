"""Weights in the native layout, and the products with them.

The layout (csrc/layout.h) holds 16 outputs side by side, so that one stream of weights serves many
rows. Packing changes no weight's value. Quantised weights meet activations of int8 with one scale
per 256 inputs; float weights meet float32 activations. Whatever the path, the number and place of
the rows and the threads, a row's result has the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.errors import UnsupportedModelError
from paceline.kernels.arena import WEIGHTS
from paceline.kernels.library import LinearArgs, Weight, library

FORMATS: Mapping[str, int] = MappingProxyType(
    {
        "F32": 0,
        "F16": 1,
        "BF16": 30,
        "Q4_0": 2,
        "Q4_1": 3,
        "Q5_0": 6,
        "Q5_1": 7,
        "Q8_0": 8,
        "Q4_K": 12,
        "Q5_K": 13,
        "Q6_K": 14,
    }
)
"""The formats there are kernels for, with GGUF's numbers."""

_ALIGNMENT = 64
_BLOCK_OUTPUTS = 16


@dataclass(frozen=True, eq=False)
class PackedWeight:
    """weight[out_features, in_features] in the native layout."""

    format: str
    out_features: int
    in_features: int
    data: Tensor
    """data[bytes] uint8, 64-byte aligned."""

    def __post_init__(self) -> None:
        """Refuse what the kernels would read past; raises ValueError."""
        _check_bytes(self.data, packed_bytes(self.format, *self.shape), "a packed weight")
        if self.data.data_ptr() % _ALIGNMENT:
            raise ValueError("A packed weight must be 64-byte aligned; make it with pack().")

    @property
    def shape(self) -> tuple[int, int]:
        """(O, I), as a tensor's."""
        return self.out_features, self.in_features

    @property
    def device(self) -> torch.device:
        """Where it lies: in memory."""
        return self.data.device

    @property
    def nbytes(self) -> int:
        """Bytes in memory, as a tensor's."""
        return len(self.data)

    def linear(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x[T, I] float32, bias[O] float32 -> x · weightᵀ + bias, [T, O] float32.

        Raises:
            ValueError: x or bias has another shape, type, device or layout.
        """
        _check_rows(x, self.in_features)
        if bias is not None:
            _check_vector(bias, self.out_features)
        out = torch.empty(len(x), self.out_features)
        scratch_bytes = library().pl_scratch_bytes(self.in_features, len(x))
        scratch = torch.empty(scratch_bytes, dtype=torch.uint8)
        arguments = LinearArgs(
            x=x.data_ptr(),
            x_stride=x.stride(0) if len(x) else 0,
            y=out.data_ptr(),
            y_stride=self.out_features,
            bias=None if bias is None else bias.data_ptr(),
            rows=len(x),
            scratch=scratch.data_ptr(),
            scratch_bytes=len(scratch),
        )
        if len(x):
            _succeed(library().pl_linear(ctypes.byref(self.struct()), ctypes.byref(arguments)))
        return out

    def rows(self, ids: Tensor) -> Tensor:
        """ids[n] int64 -> rows[n, I] float32: those rows' exact values.

        Raises:
            ValueError: ids has another type or layout, or an id is no row.
        """
        if ids.dtype != torch.int64 or ids.dim() != 1 or not ids.is_contiguous():
            raise ValueError("Row ids must be a dense vector of int64.")
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.out_features:
            raise ValueError(f"A row id lies outside 0 .. {self.out_features - 1}.")
        rows = torch.empty(len(ids), self.in_features)
        if len(ids):
            struct = ctypes.byref(self.struct())
            _succeed(library().pl_rows(struct, ids.data_ptr(), len(ids), rows.data_ptr()))
        return rows

    def first_rows(self, count: int) -> PackedWeight:
        """The matrix of its first `count` rows, in the same memory."""
        size = packed_bytes(self.format, count, self.in_features)
        return PackedWeight(self.format, count, self.in_features, self.data[:size])

    def struct(self) -> Weight:
        """The weight in the library's terms; `data` must outlive it."""
        return Weight(
            format=FORMATS[self.format],
            out_features=self.out_features,
            in_features=self.in_features,
            data=self.data.data_ptr(),
            bytes=len(self.data),
        )


def packed_bytes(weight_format: str, out_features: int, in_features: int) -> int:
    """Bytes of a packed weight; raises UnsupportedModelError where the format lacks that shape."""
    return _bytes_of("pl_packed_bytes", weight_format, out_features, in_features)


def source_bytes(weight_format: str, out_features: int, in_features: int) -> int:
    """Bytes of the GGUF tensor that `pack` takes; raises UnsupportedModelError as it does."""
    return _bytes_of("pl_source_bytes", weight_format, out_features, in_features)


def pack(
    weight_format: str, out_features: int, in_features: int, source: NDArray[np.uint8]
) -> PackedWeight:
    """Pack the rows of a GGUF tensor.

    Args:
        weight_format: one of FORMATS.
        out_features: rows of the matrix, O.
        in_features: columns, I: a multiple of 256 for the K formats, of 32 for the other
            quantised ones.
        source: source[bytes] uint8, the tensor as the file holds it, row after row.

    Raises:
        UnsupportedModelError: the format has no kernel, or not for this shape.
        ValueError: the source has another size, type or layout.
    """
    size = source_bytes(weight_format, out_features, in_features)
    _check_source(source, size, weight_format)
    return pack_chunks(
        weight_format, (out_features, in_features), [source.reshape(out_features, -1)]
    )


def pack_chunks(
    weight_format: str, shape: tuple[int, int], chunks: Iterable[NDArray[np.uint8]]
) -> PackedWeight:
    """Pack a matrix[O, I] whose rows come in chunks[n, bytes of a row]; see `pack`.

    Each chunk is let go before the next one is asked for. All but the last hold a multiple of 16
    rows, the outputs of one block.

    Raises:
        UnsupportedModelError: the format has no kernel, or not for this shape.
        ValueError: a chunk has another size, type or layout, or the rows are not O.
    """
    out_features, in_features = shape
    data = WEIGHTS.take(packed_bytes(weight_format, *shape))
    done = at = 0
    for chunk in chunks:
        if done % _BLOCK_OUTPUTS or not 0 < len(chunk) <= out_features - done:
            raise ValueError(f"{len(chunk)} rows cannot follow {done} of {out_features}.")
        part = weight_format, len(chunk), in_features
        source = chunk.reshape(-1)
        _check_source(source, source_bytes(*part), weight_format)
        size = packed_bytes(*part)
        where = source.ctypes.data, len(source), data.data_ptr() + at, size
        _succeed(library().pl_pack(FORMATS[weight_format], len(chunk), in_features, *where))
        done, at = done + len(chunk), at + size
    if done != out_features:
        raise ValueError(f"There are {done} rows of {out_features}.")
    return PackedWeight(weight_format, *shape, data)


def _bytes_of(function: str, weight_format: str, out_features: int, in_features: int) -> int:
    if weight_format not in FORMATS:
        raise UnsupportedModelError(
            f"There is no kernel for {weight_format} weights; there are: {', '.join(FORMATS)}."
        )
    if not (0 < out_features < 2**31 and 0 < in_features < 2**31):
        raise UnsupportedModelError(f"A weight of {out_features} × {in_features} has no kernel.")
    size: int = getattr(library(), function)(FORMATS[weight_format], out_features, in_features)
    if size < 0:
        unit = 256 if weight_format.endswith("_K") else 32
        raise UnsupportedModelError(
            f"{weight_format} weights need a multiple of {unit} inputs; this one has {in_features}."
        )
    return size


def _check_bytes(data: Tensor, size_bytes: int, what: str) -> None:
    if data.dtype != torch.uint8 or data.dim() != 1 or not data.is_contiguous() or not data.is_cpu:
        raise ValueError(f"The bytes of {what} must be a dense uint8 vector in memory.")
    if len(data) != size_bytes:
        raise ValueError(f"There are {len(data)} bytes of {what}; its shape wants {size_bytes}.")


def _check_source(source: NDArray[np.uint8], size_bytes: int, weight_format: str) -> None:
    if source.dtype != np.uint8 or source.ndim != 1 or not source.flags.c_contiguous:
        raise ValueError(f"The bytes of a {weight_format} source must be a dense uint8 vector.")
    if len(source) != size_bytes:
        raise ValueError(
            f"There are {len(source)} bytes of a {weight_format} source; its shape wants"
            f" {size_bytes}."
        )


def _check_rows(x: Tensor, width: int) -> None:
    if x.dtype != torch.float32 or not x.is_cpu or x.dim() != 2 or x.shape[1] != width:
        raise ValueError(f"Rows must be float32 [T, {width}] in memory, not {x.dtype} {x.shape}.")
    if x.stride(1) != 1 and len(x):
        raise ValueError("The numbers of a row must lie side by side.")


def _check_vector(x: Tensor, size: int) -> None:
    if x.dtype != torch.float32 or not x.is_cpu or x.shape != (size,) or not x.is_contiguous():
        raise ValueError(f"A bias must be dense float32 [{size}] in memory.")


def _succeed(status: int) -> None:
    if status:
        raise ValueError(f"The native kernels refused their arguments (status {status}).")
