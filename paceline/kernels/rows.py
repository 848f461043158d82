"""Torch operations whose bits, row by row, depend on that row alone (on a CPU).

Three facts carry this, and tests/unit/kernels checks each bit for bit:
- A product runs as equal GEMMs of ROW_TILE rows by LANES outputs. The tile is the GEMM's vector
  dimension, a whole number of SIMD vectors, so all its rows go through the same instructions;
  a product of that size is not split over threads in a way that changes its sums.
- A vectorised loop may round a transcendental function otherwise in its tail than in its body, and
  threads move the tail. So those functions run on one row at a time.
- Sums over the last dimension, and correctly rounded operations (+, ·, /, sqrt), are safe as is.
On other devices the plain operations run, and no claim is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

ROW_TILE = 16
"""Rows of one GEMM: of 8, 16 and 32 the one with the best price for 1 to 8 rows and for prompts."""
LANES = 64
"""Outputs of one GEMM; blocks of them are one batched call that MKL spreads over the threads."""
PIECE = 16_384
"""Numbers that torch leaves to one thread; a whole number of SIMD vectors."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x[T, I], weight[O, I], bias[O] -> x · weightᵀ + bias, [T, O]."""
    if not x.is_cpu:
        return F.linear(x, weight, bias)
    if not len(x):
        return x.new_empty(0, len(weight))
    columns = torch.cat([_tile_product(weight, tile.t()) for tile in tiles(x)], dim=1)
    out = columns[:, : len(x)].t().contiguous()
    return out if bias is None else out + bias


def tiles(x: Tensor) -> list[Tensor]:
    """x[T, I] as tiles [ROW_TILE, I], the last one filled up with zeros."""
    filled = fill(x.contiguous(), 0, ROW_TILE)
    return list(filled.chunk(len(filled) // ROW_TILE))


def fill(x: Tensor, dim: int, multiple: int) -> Tensor:
    """x, with zeros behind it where its size along `dim` is no multiple."""
    missing = -x.shape[dim] % multiple
    if not missing:
        return x
    shape = [*x.shape]
    shape[dim] = missing
    return torch.cat((x, x.new_zeros(shape)), dim)


def _tile_product(weight: Tensor, columns: Tensor) -> Tensor:
    """weight[O, I] · columns[I, ROW_TILE], in blocks of LANES outputs: [O, ROW_TILE]."""
    outputs = len(weight)
    if outputs < LANES:
        return _tile_product(fill(weight, 0, LANES), columns)[:outputs]
    blocks, rest = divmod(outputs, LANES)
    whole = weight[: blocks * LANES].view(blocks, LANES, -1)
    product = torch.bmm(whole, columns.expand(blocks, -1, -1)).flatten(0, 1)
    if not rest:
        return product
    # The last block reaches back over outputs that are known already: a shape of its own for
    # what is left over would have sums of its own.
    last = torch.bmm(weight[None, -LANES:], columns[None])[0]
    return torch.cat((product, last[-rest:]))


def rms_norm(x: Tensor, scale: Tensor, eps: float) -> Tensor:
    """x[T, E] / sqrt(mean(x²) + eps) · scale[E]."""
    return F.rms_norm(x, scale.shape, scale, eps)


def layer_norm(x: Tensor, scale: Tensor, bias: Tensor, eps: float) -> Tensor:
    """(x[T, E] − mean) / sqrt(variance + eps) · scale[E] + bias[E]."""
    return F.layer_norm(x, scale.shape, scale, bias, eps)


def silu(x: Tensor) -> Tensor:
    """x · sigmoid(x), element by element."""
    return _row_by_row(F.silu, x)


def gelu(x: Tensor) -> Tensor:
    """x / 2 · (1 + tanh(sqrt(2 / π) · (x + 0.044715 x³))), element by element."""
    return _row_by_row(partial(F.gelu, approximate="tanh"), x)


def soft_cap(x: Tensor, cap: float) -> Tensor:
    """cap · tanh(x / cap), element by element."""
    return _row_by_row(torch.tanh, x / cap) * cap


def cos_sin(angles: Tensor) -> Tensor:
    """angles[T, D / 2] -> cos | sin, [T, D]."""
    return torch.cat((_row_by_row(torch.cos, angles), _row_by_row(torch.sin, angles)), dim=-1)


def _row_by_row(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Pieces of a row that no thread shares."""
    if not x.is_cpu or not len(x):
        return function(x)
    pieces = [function(piece) for row in x.unbind() for piece in torch.split(row, PIECE)]
    return torch.cat(pieces).view(x.shape)
