"""What the native code could not survive is refused in Python."""

import numpy as np
import pytest
import torch

from paceline.errors import UnsupportedModelError
from paceline.kernels.arena import buffer
from paceline.kernels.packed import PackedWeight, pack


@pytest.fixture
def weight():
    return pack("Q8_0", 20, 64, np.zeros(20 * 68, np.uint8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Q2_K", 16, 256), "no kernel for Q2_K"),
        (("Q4_K", 16, 128), "multiple of 256 inputs; this one has 128"),
        (("Q8_0", 16, 33), "multiple of 32 inputs"),
        (("Q8_0", 0, 32), "0 × 32"),
        (("Q8_0", 16, 2**31), "16 × 2147483648"),
    ],
)
def test_a_shape_without_a_kernel(arguments, message):
    with pytest.raises(UnsupportedModelError, match=message):
        pack(*arguments, np.zeros(1, np.uint8))


@pytest.mark.parametrize(
    "source",
    [
        np.zeros(20 * 68 - 1, np.uint8),
        np.zeros(20 * 68 + 1, np.uint8),
        np.zeros(20 * 68, np.int8),
        np.zeros((20, 68), np.uint8),
        np.zeros(2 * 20 * 68, np.uint8)[::2],
    ],
)
def test_a_source_that_is_not_the_tensors_bytes(source):
    with pytest.raises(ValueError, match="bytes of a Q8_0 source"):
        pack("Q8_0", 20, 64, source)


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(2, 63),
        torch.zeros(2, 65),
        torch.zeros(64),
        torch.zeros(2, 64, dtype=torch.float64),
        torch.zeros(64, 2).t(),
    ],
)
def test_rows_of_another_shape_type_or_layout(weight, x):
    with pytest.raises(ValueError, match=r"Rows must be|side by side"):
        weight.linear(x)


@pytest.mark.parametrize(
    "bias", [torch.zeros(19), torch.zeros(20, dtype=torch.float16), torch.zeros(40)[::2]]
)
def test_a_bias_of_another_shape_type_or_layout(weight, bias):
    with pytest.raises(ValueError, match=r"dense float32 \[20\]"):
        weight.linear(torch.zeros(1, 64), bias)


@pytest.mark.parametrize("ids", [[20], [-1], [0, 19, 20]])
def test_ids_outside_the_table(weight, ids):
    with pytest.raises(ValueError, match=r"outside 0 \.\. 19"):
        weight.rows(torch.tensor(ids))


@pytest.mark.parametrize("ids", [torch.zeros(1), torch.zeros(1, 1, dtype=torch.int64)])
def test_ids_that_are_no_vector_of_int64(weight, ids):
    with pytest.raises(ValueError, match="vector of int64"):
        weight.rows(ids)


def test_a_packed_weight_that_is_short_or_misaligned(weight):
    with pytest.raises(ValueError, match="its shape wants"):
        PackedWeight("Q8_0", 20, 64, weight.data[:-1])
    askew = buffer(len(weight.data) + 1)[1:]
    with pytest.raises(ValueError, match="64-byte aligned"):
        PackedWeight("Q8_0", 20, 64, askew)
