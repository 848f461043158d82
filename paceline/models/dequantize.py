"""Stored number formats -> float32, block by block (the formats of ggml, and bfloat16).

Each decoder takes blocks[n, block_bytes] uint8 and returns [n, block_values] float32, with the
very operations of ggml's reference, so that the values are the file's to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.models.mapped_file import Bytes

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Format:
    """How numbers are stored: so many values in a block of so many bytes."""

    name: str
    block_values: int
    block_bytes: int
    decode: Callable[[Bytes], Floats]


def f32(blocks: Bytes) -> Floats:
    """IEEE single precision, little endian."""
    return blocks.view(np.dtype("<f4")).astype(np.float32)


def f16(blocks: Bytes) -> Floats:
    """IEEE half precision, little endian."""
    return blocks.view(np.dtype("<f2")).astype(np.float32)


def bf16(blocks: Bytes) -> Floats:
    """The upper half of single precision."""
    return (blocks.view(np.dtype("<u2")).astype(np.uint32) << 16).view(np.float32)


def q8_0(blocks: Bytes) -> Floats:
    """scale f16, 32 × int8: scale · q."""
    scale = f16(_columns(blocks, 0, 2))
    return blocks[:, 2:].view(np.int8).astype(np.float32) * scale


def q5_0(blocks: Bytes) -> Floats:
    """scale f16, 32 high bits, 32 × 4 low bits: scale · (q − 16)."""
    scale = f16(_columns(blocks, 0, 2))
    high = np.unpackbits(_columns(blocks, 2, 6), bitorder="little").reshape(-1, 32)
    packed = _columns(blocks, 6, 22)
    low = np.concatenate((packed & 15, packed >> 4), axis=1)
    out: Floats = (low | high << 4).astype(np.float32)
    out -= 16
    out *= scale
    return out


def q4_k(blocks: Bytes) -> Floats:
    """8 sub-blocks of 32: scale · s · q − low · m, where s and m are 6-bit."""
    n = len(blocks)
    scale, low = f16(_columns(blocks, 0, 2)), f16(_columns(blocks, 2, 4))
    s, m = _six_bit_pairs(blocks[:, 4:16])
    packed = blocks[:, 16:].reshape(n, 4, 1, 32)
    q = np.concatenate((packed & 15, packed >> 4), axis=2).reshape(n, 8, 32)
    out = q.astype(np.float32)
    out *= (scale * s)[:, :, None]
    out -= (low * m)[:, :, None]
    return out.reshape(n, 256)


def q6_k(blocks: Bytes) -> Floats:
    """16 sub-blocks of 16: scale · s · (q − 32), where s is int8 and q has 4 low, 2 high bits."""
    n = len(blocks)
    low = blocks[:, :128].reshape(n, 2, 1, 64)
    high = blocks[:, 128:192].reshape(n, 2, 1, 32)
    low = np.concatenate((low & 15, low >> 4), axis=2).reshape(n, 2, 4, 32)
    high = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
    scales = f16(_columns(blocks, 208, 210)) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    out = (low | high << 4).reshape(n, 16, 16).astype(np.float32)
    out -= 32
    out *= scales[:, :, None]
    return out.reshape(n, 256)


def _six_bit_pairs(packed: Bytes) -> tuple[Floats, Floats]:
    """12 bytes -> 8 scales and 8 minima: four of each whole, the rest split over high bits."""
    d, m, md = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate((d & 63, md & 15 | d >> 2 & 48), axis=1)
    minima = np.concatenate((m & 63, md >> 4 | m >> 2 & 48), axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _columns(blocks: Bytes, start: int, stop: int) -> Bytes:
    """Some bytes of every block, dense, so that they can be seen as another type."""
    return np.ascontiguousarray(blocks[:, start:stop])


F32 = Format("F32", 1, 4, f32)
F16 = Format("F16", 1, 2, f16)
BF16 = Format("BF16", 1, 2, bf16)
Q8_0 = Format("Q8_0", 32, 34, q8_0)
Q5_0 = Format("Q5_0", 32, 22, q5_0)
Q4_K = Format("Q4_K", 256, 144, q4_k)
Q6_K = Format("Q6_K", 256, 210, q6_k)

GGML_FORMATS: dict[int, Format] = {
    0: F32,
    1: F16,
    30: BF16,
    8: Q8_0,
    6: Q5_0,
    12: Q4_K,
    14: Q6_K,
}
"""Formats by ggml's number."""

GGML_NAMES: dict[int, str] = dict(
    enumerate(
        (
            *("F32", "F16", "Q4_0", "Q4_1", "Q4_2", "Q4_3", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K"),
            *("Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S"),
            *("IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16", "I32", "I64", "F64", "IQ1_M"),
            "BF16",
        )
    )
)
"""ggml's names, for the error about those that are not implemented."""

SAFETENSORS_FORMATS: dict[str, Format] = {"F32": F32, "F16": F16, "BF16": BF16}
"""Formats by their name in safetensors."""
