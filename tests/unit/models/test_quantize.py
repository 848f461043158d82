"""Encoding: what a decoder reads back lies within half a step of what was written."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from paceline.models.quantize import ENCODERS

QUANTISED = ("Q8_0", "Q4_1", "Q4_K")


def decoded(name: str, blocks: np.ndarray) -> np.ndarray:
    return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])


def normal(name: str, count: int = 500) -> np.ndarray:
    values = np.random.default_rng(3).normal(0.01, 0.1, (count, ENCODERS[name][0]))
    return values.astype(np.float32)


@pytest.mark.parametrize("name", QUANTISED)
def test_blocks_have_the_formats_size(name: str) -> None:
    values, encode = ENCODERS[name]
    kind = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = encode(normal(name))
    assert (values, blocks.shape[1], blocks.dtype) == (*kind, np.uint8)


@pytest.mark.parametrize(("name", "steps"), [("Q8_0", 254), ("Q4_1", 15)])
def test_half_a_step_from_what_was_written(name: str, steps: int) -> None:
    """Besides, the scale and the minimum are rounded to float16: 2⁻¹¹ of the largest value."""
    x = normal(name)
    span = 2 * np.abs(x).max(1) if name == "Q8_0" else x.max(1) - x.min(1)
    error = np.abs(decoded(name, ENCODERS[name][1](x)) - x).max(1)
    assert (error <= span / steps / 2 + 3 * 2**-11 * np.abs(x).max(1)).all()


def test_q4_k_is_half_a_step_of_each_sub_block_and_its_rounded_scales() -> None:
    """Scale and minimum are 6-bit codes of the block's largest: each errs by 1/126 of it."""
    x = normal("Q4_K")
    error = np.abs(decoded("Q4_K", ENCODERS["Q4_K"][1](x)) - x).reshape(-1, 8, 32).max(2)
    sub = x.reshape(-1, 8, 32)
    span = sub.max(2) - np.minimum(sub.min(2), 0)
    scale, low = span.max(1, keepdims=True) / 15 / 126, -sub.min(2).min(1, keepdims=True) / 126
    assert (error <= span / 30 + 15 * scale + low + 2e-3 * span.max(1, keepdims=True)).all()


@pytest.mark.parametrize("name", QUANTISED)
@pytest.mark.parametrize("value", [0.0, 0.5, -0.5])
def test_equal_values_stay(name: str, value: float) -> None:
    x = np.full((3, ENCODERS[name][0]), value, np.float32)
    assert np.allclose(decoded(name, ENCODERS[name][1](x)), x, atol=2e-3 * abs(value))


def test_what_a_block_holds_exactly_comes_back_exactly() -> None:
    codes = np.arange(-16, 16) * 8 - 1
    codes[0] = -127
    x = (codes * 0.25).astype(np.float32)[None]
    assert np.array_equal(decoded("Q8_0", ENCODERS["Q8_0"][1](x)), x)
    x = (np.arange(32) % 16 * 0.5 - 3).astype(np.float32)[None]
    assert np.array_equal(decoded("Q4_1", ENCODERS["Q4_1"][1](x)), x)
    x = np.tile((np.arange(32) % 16 - 4) * 0.5 * 63 / 64, 8).astype(np.float32)[None]
    assert np.abs(decoded("Q4_K", ENCODERS["Q4_K"][1](x)) - x).max() < 0.04


def test_floats() -> None:
    x = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
    assert np.array_equal(ENCODERS["F32"][1](x).view("<f4"), x)
    found, expected = (
        ENCODERS["BF16"][1](x),
        gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16),
    )
    assert np.array_equal(found, expected)
