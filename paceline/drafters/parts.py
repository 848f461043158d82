"""The target's embedding, final norm and head, as heads share them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.kernels import ops, rows
from paceline.kernels.ops import Matrix
from paceline.kernels.packed import PackedWeight
from paceline.models import LoadedModel
from paceline.models.packing import Packing


@dataclass(frozen=True, eq=False)
class TargetParts:
    """Operations of the target's program that lie outside its layers."""

    embed: ops.Embed
    norm: ops.RMSNorm | ops.LayerNorm
    head: ops.Linear
    cap: float | None

    @classmethod
    def of(cls, target: LoadedModel) -> TargetParts:
        """Find them in the target's program."""
        found = target.program.ops
        start = next(i for i, op in enumerate(found) if isinstance(op, ops.LogitRows))
        embed, norm, head, *rest = found[0], *found[start + 1 :]
        assert isinstance(embed, ops.Embed)
        assert isinstance(norm, ops.RMSNorm | ops.LayerNorm)
        assert isinstance(head, ops.Linear)
        cap = next((op.cap for op in rest if isinstance(op, ops.SoftCap)), None)
        return cls(embed, norm, head, cap)

    def normed(self, x: Tensor) -> Tensor:
        """The final norm of the last layer's hidden[N, E]."""
        if isinstance(self.norm, ops.RMSNorm):
            return rows.rms_norm(x, self.norm.scale.float(), self.norm.eps)
        return rows.layer_norm(x, self.norm.scale.float(), self.norm.bias.float(), self.norm.eps)


def linear(x: Tensor, weight: Matrix, bias: Tensor | None = None) -> Tensor:
    """x[N, I] -> [N, O] float32; a row's bits depend on that row alone, on a CPU."""
    if isinstance(weight, PackedWeight):
        return weight.linear(x.contiguous(), bias)
    return rows.linear(x.to(weight.dtype), weight, bias).float()


def laid_out(weight: Tensor, like: Matrix, quantize: str | None = None) -> Matrix:
    """weight[O, I] float32 as the target keeps its own: packed for native kernels, or a tensor.

    `quantize` packs it as int8 or int4, whose passes read a quarter or an eighth of the bytes.
    """
    if not isinstance(like, PackedWeight):
        return weight.to(like.device, like.dtype)
    return Packing(quantize).pack(weight, "F32")


def dense(matrix: Matrix, ids: Tensor | None = None) -> Tensor:
    """The rows ids[n] of a matrix[O, I], or all, as float32[n, I] in memory."""
    if ids is None:
        ids = torch.arange(matrix.shape[0])
    return matrix.rows(ids) if isinstance(matrix, PackedWeight) else matrix[ids].float().cpu()
