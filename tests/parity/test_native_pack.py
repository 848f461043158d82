"""Packing into the native layout changes no weight and wastes little."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from native_samples import ALL, dequantised, inputs_of, random_source

from paceline.kernels.packed import pack, packed_bytes


@pytest.mark.parametrize("weight_format", ALL)
@pytest.mark.parametrize("outputs", [1, 16, 37])
def test_rows_of_a_packed_weight_are_the_files_values_to_the_bit(weight_format, outputs):
    shape = outputs, inputs_of(weight_format)
    source = random_source(weight_format, *shape)
    packed = pack(weight_format, *shape, source)
    rows = packed.rows(torch.arange(outputs))
    assert torch.equal(rows, dequantised(weight_format, source, *shape))


@given(st.lists(st.integers(0, 36), max_size=8), st.sampled_from(ALL))
@settings(max_examples=30, deadline=None)
def test_rows_come_in_the_order_asked(ids, weight_format):
    shape = 37, 256
    source = random_source(weight_format, *shape)
    wanted = dequantised(weight_format, source, *shape)[ids]
    packed = pack(weight_format, *shape, source)
    assert torch.equal(packed.rows(torch.tensor(ids, dtype=torch.int64)), wanted)


@pytest.mark.parametrize("weight_format", ALL)
@pytest.mark.parametrize("inputs", [1536, 4864, 8960])
def test_packing_adds_at_most_three_percent(weight_format, inputs):
    source = len(random_source(weight_format, 16, inputs))
    assert source <= packed_bytes(weight_format, 16, inputs) <= 1.03 * source


@pytest.mark.parametrize("weight_format", [name for name in ALL if not name.endswith("_K")])
def test_packing_the_narrowest_weight_adds_at_most_twelve_percent(weight_format):
    source = len(random_source(weight_format, 16, 32))
    assert packed_bytes(weight_format, 16, 32) <= 1.12 * source
