"""Matrices as int8 with a scale for each 32 inputs: a head in a quarter of float32's bytes.

These are the numbers of GGUF's Q8_0, so that the native kernels read what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from paceline.models.quantize import q8_0

GROUP, SCALE_BYTES = 32, 2
SCALE = ".scale"
"""What the name of a matrix's scales ends with."""


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight[O, I] -> int8[O, I] and scale[O, I / 32] float16; I is a multiple of 32."""
    blocks = torch.from_numpy(q8_0(weight.float().reshape(-1, GROUP).numpy()))
    scale, numbers = blocks[:, :SCALE_BYTES], blocks[:, SCALE_BYTES:]
    scale = scale.contiguous().view(torch.float16).view(len(weight), -1)
    return numbers.contiguous().view(torch.int8).view(weight.shape), scale


def restored(numbers: Tensor, scale: Tensor) -> Tensor:
    """numbers[O, I], scale[O, I / 32] -> weight[O, I] float32."""
    groups = numbers.float().view(len(numbers), -1, GROUP)
    return (groups * scale.float().unsqueeze(-1)).flatten(1)


def scale_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The scales that stand beside tensors of these shapes: one for each matrix."""
    return {
        name + SCALE: (shape[0], shape[1] // GROUP)
        for name, shape in shapes.items()
        if len(shape) == 2
    }
