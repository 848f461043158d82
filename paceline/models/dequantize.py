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

_CURVE: Floats = np.array(
    (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.float32
)
"""What the codes of the IQ4 formats stand for: closer together near zero."""


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


def i64(blocks: Bytes) -> Floats:
    """Integers, little endian; exact up to 2²⁴."""
    return blocks.view(np.dtype("<i8")).astype(np.float32)


def i8(blocks: Bytes) -> Floats:
    """Integers of a byte."""
    return blocks.view(np.int8).astype(np.float32)


def boolean(blocks: Bytes) -> Floats:
    """A byte, 0 or 1."""
    return blocks.astype(np.float32)


def q8_0(blocks: Bytes) -> Floats:
    """scale f16, 32 × int8: scale · q."""
    scale = f16(_columns(blocks, 0, 2))
    return blocks[:, 2:].view(np.int8).astype(np.float32) * scale


def q4_0(blocks: Bytes) -> Floats:
    """scale f16, 32 × 4 bits: scale · (q − 8)."""
    return _signed(f16(_columns(blocks, 0, 2)), _nibbles(blocks[:, 2:]), 8)


def q4_1(blocks: Bytes) -> Floats:
    """scale f16, least f16, 32 × 4 bits: scale · q + least."""
    return _from_least(blocks, _nibbles(blocks[:, 4:]))


def q5_0(blocks: Bytes) -> Floats:
    """scale f16, 32 high bits, 32 × 4 low bits: scale · (q − 16)."""
    q = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return _signed(f16(_columns(blocks, 0, 2)), q, 16)


def q5_1(blocks: Bytes) -> Floats:
    """scale f16, least f16, 32 high bits, 32 × 4 low bits: scale · q + least."""
    return _from_least(blocks, _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4))


def iq4_nl(blocks: Bytes) -> Floats:
    """scale f16, 32 × 4 bits: scale · _CURVE[q]."""
    return f16(_columns(blocks, 0, 2)) * _CURVE[_nibbles(blocks[:, 2:])]


def iq4_xs(blocks: Bytes) -> Floats:
    """8 sub-blocks of 32: scale · (s − 32) · _CURVE[q], where s has 4 low, 2 high bits."""
    n = len(blocks)
    high = _columns(blocks, 2, 4).view(np.dtype("<u2")) >> np.arange(0, 16, 2, dtype=np.uint16)
    low = np.stack((blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4), axis=2).reshape(n, 8)
    s = (low | (high & 3).astype(np.uint8) << 4).astype(np.float32) - 32
    scales = f16(_columns(blocks, 0, 2)) * s
    q = _nibbles(blocks[:, 8:].reshape(n, 8, 16))
    out: Floats = (scales[:, :, None] * _CURVE[q]).reshape(n, 256)
    return out


def q2_k(blocks: Bytes) -> Floats:
    """16 sub-blocks of 16: scale · s · q − low · m, where s and m are 4-bit and q is 2-bit."""
    n = len(blocks)
    scale, low = f16(_columns(blocks, 80, 82)), f16(_columns(blocks, 82, 84))
    s, m = (blocks[:, :16] & 15).astype(np.float32), (blocks[:, :16] >> 4).astype(np.float32)
    q = _two_bits(blocks[:, 16:80])
    return ((scale * s)[:, :, None] * q - (low * m)[:, :, None]).reshape(n, 256)


def q3_k(blocks: Bytes) -> Floats:
    """16 sub-blocks of 16: scale · (s − 32) · q; s has 6 bits, q 2 low bits, and a bit that is
    clear takes 4 away.
    """
    n = len(blocks)
    high = (blocks[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(n, 16, 16)
    low, upper = blocks[:, 96:104], blocks[:, 104:108]
    top = (upper[:, None] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(n, 16)
    s = (np.concatenate((low & 15, low >> 4), axis=1) | top << 4).astype(np.float32) - 32
    q = _two_bits(blocks[:, 32:96]) + 4 * high.astype(np.float32) - 4
    out: Floats = ((f16(_columns(blocks, 108, 110)) * s)[:, :, None] * q).reshape(n, 256)
    return out


def q4_k(blocks: Bytes) -> Floats:
    """8 sub-blocks of 32: scale · s · q − low · m, where s and m are 6-bit."""
    return _six_bit_affine(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)))


def q5_k(blocks: Bytes) -> Floats:
    """As Q4_K, with a fifth bit of each q."""
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    fifth = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q: Bytes = low | (fifth << 4).astype(np.uint8)
    return _six_bit_affine(blocks, q)


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


def _nibbles(packed: Bytes) -> Bytes:
    """packed[…, m] -> […, 2 m]: the low halves of the bytes, then the high ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def _fifth_bits(blocks: Bytes, start: int) -> Bytes:
    """Four bytes of each block -> its 32 bits, worth 16 each."""
    bits = _columns(blocks, start, start + 4)
    high: Bytes = (np.unpackbits(bits, bitorder="little").reshape(-1, 32) << 4).astype(np.uint8)
    return high


def _two_bits(packed: Bytes) -> Floats:
    """packed[n, 64] -> [n, 16, 16]: of 32 bytes the lowest bits, the next, …, then of the rest."""
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    q = packed.reshape(-1, 2, 1, 32) >> shifts & 3
    return q.reshape(-1, 16, 16).astype(np.float32)


def _signed(scale: Floats, q: Bytes, zero: int) -> Floats:
    out: Floats = q.astype(np.float32)
    out -= zero
    out *= scale
    return out


def _from_least(blocks: Bytes, q: Bytes) -> Floats:
    out: Floats = q.astype(np.float32)
    out *= f16(_columns(blocks, 0, 2))
    out += f16(_columns(blocks, 2, 4))
    return out


def _six_bit_affine(blocks: Bytes, q: Bytes) -> Floats:
    scale, low = f16(_columns(blocks, 0, 2)), f16(_columns(blocks, 2, 4))
    s, m = _six_bit_pairs(blocks[:, 4:16])
    out = q.reshape(-1, 8, 32).astype(np.float32)
    out *= (scale * s)[:, :, None]
    out -= (low * m)[:, :, None]
    return out.reshape(-1, 256)


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

GGML_FORMATS: dict[int, Format] = {
    0: F32,
    1: F16,
    30: BF16,
    8: Format("Q8_0", 32, 34, q8_0),
    2: Format("Q4_0", 32, 18, q4_0),
    3: Format("Q4_1", 32, 20, q4_1),
    6: Format("Q5_0", 32, 22, q5_0),
    7: Format("Q5_1", 32, 24, q5_1),
    10: Format("Q2_K", 256, 84, q2_k),
    11: Format("Q3_K", 256, 110, q3_k),
    12: Format("Q4_K", 256, 144, q4_k),
    13: Format("Q5_K", 256, 176, q5_k),
    14: Format("Q6_K", 256, 210, q6_k),
    20: Format("IQ4_NL", 32, 18, iq4_nl),
    23: Format("IQ4_XS", 256, 136, iq4_xs),
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
INDEX_FORMATS = {"I64": Format("I64", 1, 8, i64), "BOOL": Format("BOOL", 1, 1, boolean)}
"""Those of tables of ids, which no model's weights have."""
INT8_FORMATS = {"I8": Format("I8", 1, 1, i8)}
"""That of heads, whose scales are tensors of their own."""
