"""Random GGUF tensors for the native kernels, and what they mean in float32."""

from __future__ import annotations

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bytes = NDArray[np.uint8]
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
QUANTISED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
ALL = (*FLOATS, *QUANTISED)

# Where a block keeps its fp16 scale, and its fp16 minimum where it has one.
_HALVES = {"Q6_K": (208,), **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2))}


def inputs_of(weight_format: str) -> int:
    """A width with a short last super-block wherever the format allows it."""
    if weight_format in FLOATS:
        return 131
    return 512 if weight_format.endswith("_K") else 352


def random_source(weight_format: str, outputs: int, inputs: int, seed: int = 0) -> Bytes:
    """source[bytes] uint8: any codes, with scales that keep the values near one."""
    draw = np.random.default_rng([seed, outputs, inputs])
    if weight_format in FLOATS:
        values = torch.from_numpy(draw.standard_normal((outputs, inputs), dtype=np.float32))
        return values.to(FLOATS[weight_format]).view(torch.uint8).flatten().numpy()
    values, size_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[weight_format]]
    count = outputs * inputs // values
    blocks = draw.integers(0, 256, (count, size_bytes), dtype=np.uint8)
    for at in _HALVES.get(weight_format, (0,)):
        halves = draw.uniform(-0.01, 0.01, count).astype("<f2")
        blocks[:, at : at + 2] = halves[:, None].view(np.uint8)
    return blocks.reshape(-1)


def extreme_source(weight_format: str, outputs: int, inputs: int) -> Bytes:
    """source[bytes] uint8: every code and every integer scale at its largest; fp16 scales 1."""
    values, size_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[weight_format]]
    blocks = np.full((outputs * inputs // values, size_bytes), 255, dtype=np.uint8)
    if weight_format == "Q6_K":
        blocks[:, 192:208] = 0x80  # int8 scales of -128
    if weight_format == "Q8_0":
        blocks[:, 2:] = 0x80
    for at in _HALVES.get(weight_format, (0,)):
        blocks[:, at : at + 2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    return blocks.reshape(-1)


def dequantised(weight_format: str, source: Bytes, outputs: int, inputs: int) -> Tensor:
    """weight[outputs, inputs] float32 by the gguf package."""
    if weight_format in FLOATS:
        values = torch.from_numpy(source).view(FLOATS[weight_format])
        return values.float().view(outputs, inputs)
    kind = gguf.GGMLQuantizationType[weight_format]
    values = gguf.quants.dequantize(source, kind)
    return torch.from_numpy(values.reshape(outputs, inputs).copy())
