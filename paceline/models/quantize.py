"""float32 -> stored number formats, block by block: the way back from `dequantize`.

Each encoder takes values[n, block_values] float32 and returns [n, block_bytes] uint8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from paceline.models.dequantize import Bytes, Floats


def f32(values: Floats) -> Bytes:
    """IEEE single precision, little endian."""
    return values.astype("<f4").view(np.uint8)


def f16(values: Floats) -> Bytes:
    """IEEE half precision, little endian."""
    return values.astype("<f2").view(np.uint8)


def bf16(values: Floats) -> Bytes:
    """The upper half of single precision, rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").view(np.uint8)


def q8_0(values: Floats) -> Bytes:
    """scale f16 so that the largest of 32 is ±127."""
    scale = np.abs(values).max(axis=1, keepdims=True) / 127
    codes = np.rint(values * _inverse(scale)).astype(np.int8)
    return np.hstack((f16(scale), codes.view(np.uint8)))


def q4_1(values: Floats) -> Bytes:
    """scale and minimum f16 so that 32 values span 0 .. 15."""
    low = values.min(axis=1, keepdims=True)
    scale = (values.max(axis=1, keepdims=True) - low) / 15
    codes = _codes((values - low) * _inverse(scale))
    return np.hstack((f16(scale), f16(low), codes[:, :16] | codes[:, 16:] << 4))


def q4_k(values: Floats) -> Bytes:
    """8 sub-blocks of 32, each from its least value (or 0) to its largest in 15 steps."""
    n = len(values)
    sub = values.reshape(n, 8, 32)
    low = np.minimum(sub.min(axis=2), 0)
    scales, d = _six_bits((np.maximum(sub.max(axis=2), low) - low) / 15)
    minima, dmin = _six_bits(-low)
    step, offset = d * scales, dmin * minima
    codes = _codes((sub + offset[:, :, None]) * _inverse(step)[:, :, None]).reshape(n, 4, 2, 32)
    nibbles = (codes[:, :, 0] | codes[:, :, 1] << 4).reshape(n, 128)
    return np.hstack((f16(d), f16(dmin), _packed_pairs(scales, minima), nibbles))


def _six_bits(sizes: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """sizes[n, 8] >= 0 -> codes 0 .. 63 and their unit[n, 1], as float16 holds it."""
    unit = (sizes.max(axis=1, keepdims=True) / 63).astype(np.float16).astype(np.float32)
    return np.clip(np.rint(sizes * _inverse(unit)), 0, 63).astype(np.uint8), unit


def _packed_pairs(scales: NDArray[np.uint8], minima: NDArray[np.uint8]) -> Bytes:
    """8 scales and 8 minima of 6 bits -> 12 bytes: four of each whole, the rest split."""
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = minima[:, :4] | minima[:, 4:] >> 4 << 6
    return np.hstack((first, second, scales[:, 4:] & 15 | minima[:, 4:] << 4))


def _codes(steps: Floats) -> Bytes:
    return np.clip(np.rint(steps), 0, 15).astype(np.uint8)


def _inverse(scale: Floats) -> Floats:
    """1 / scale, and 0 where all values are equal."""
    return np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)


ENCODERS: Mapping[str, tuple[int, Callable[[Floats], Bytes]]] = {
    "F32": (1, f32),
    "F16": (1, f16),
    "BF16": (1, bf16),
    "Q8_0": (32, q8_0),
    "Q4_1": (32, q4_1),
    "Q4_K": (256, q4_k),
}
"""Values of a block, and its encoder, by the name of the format."""
