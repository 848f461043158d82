"""The machine's limits and the tables beside them: sums that must hold, not speeds."""

import numpy as np
import pytest
import torch

from paceline.bench.kernels import (
    IN_FEATURES,
    OUT_FEATURES,
    blank_weight,
    largest_of_each_format,
    measure_products,
)
from paceline.bench.rows import measure_passes, weights_read
from paceline.kernels.library import library
from paceline.kernels.native import NativeProgram
from paceline.kernels.ops import Linear
from paceline.kernels.packed import pack, source_bytes
from paceline.kernels.probe import Limits, fastest_of_each, measure_limits
from paceline.plan.roofline import Weights
from tests.tiny_models import SPECS, Bench

LIMITS = Limits(bytes_per_s=10e9, ops_per_s=100e9)


def test_limits_count_what_was_read_and_multiplied():
    limits = measure_limits()
    assert limits.bytes_per_s > 0
    assert limits.ops_per_s > 0
    assert library().pl_multiply(3) == 3 * library().pl_multiply(1)


def test_a_product_stands_beside_the_longer_of_its_two_limits():
    weight = blank_weight("Q4_K")
    one, many = measure_products(weight, (1, 32), LIMITS)
    params = OUT_FEATURES * IN_FEATURES
    assert one.limit_ms == pytest.approx(1e3 * weight.nbytes / 10e9)
    assert many.limit_ms == pytest.approx(1e3 * 2 * 32 * params / 100e9)
    for cost in (one, many):
        assert cost.gb_per_s * cost.ms == pytest.approx(weight.nbytes / 1e6)
        assert cost.gops * cost.ms == pytest.approx(2 * cost.rows * params / 1e6)
        assert cost.percent_of_stream == pytest.approx(10 * cost.gb_per_s)


def test_of_each_format_the_largest_packed_weight_is_measured():
    small, large, other = (
        pack(name, outputs, 256, np.zeros(source_bytes(name, outputs, 256), np.uint8))
        for name, outputs in (("Q8_0", 16), ("Q8_0", 32), ("Q4_K", 16))
    )
    assert largest_of_each_format([small, torch.zeros(3), large, other]) == [other, large]


def test_a_pass_reads_the_matrices_it_multiplies_with_and_no_other_row_of_the_embedding():
    program = Bench(SPECS["grouped heads, tied"], num_slots=1).program
    params = sum(op.weight.numel() for op in program.ops if isinstance(op, Linear))
    assert weights_read(program) == Weights(weight_bytes=4 * params, params=params)


def test_works_take_turns():
    order = []
    found = fastest_of_each([lambda: order.append("a"), lambda: order.append("b")], repeats=2)
    assert order == ["a", "b"] * 3
    assert len(found) == 2
    assert min(found) >= 0


def test_a_pass_reads_its_context_too():
    bench = Bench(SPECS["grouped heads, tied"], num_slots=40)
    sizes = Weights(weight_bytes=1e6, params=2e6)
    costs = list(measure_passes(NativeProgram(bench.program).run, bench.kv, sizes, (1, 8), LIMITS))
    assert [cost.rows for cost in costs] == [1, 8]
    slot_bytes = 2 * 2 * 2 * 16 * 4  # keys and values, layers, heads, size, float32
    for cost in costs:
        scan_s = max(1e6 / 10e9, 2 * 2e6 * cost.rows / 100e9)
        expected_s = scan_s + slot_bytes * (32 + cost.rows) / 10e9
        assert cost.limit_ms == pytest.approx(1e3 * expected_s)
        assert cost.gb_per_s * cost.ms == pytest.approx(1.0)
