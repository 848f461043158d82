"""The machine's limits and the tables beside them: sums that must hold, not speeds."""

import pytest

from paceline.bench.kernels import IN_FEATURES, OUT_FEATURES, measure_products
from paceline.bench.rows import measure_passes
from paceline.kernels.library import library
from paceline.kernels.native import NativeProgram
from paceline.kernels.packed import packed_bytes
from paceline.kernels.probe import Limits, measure_limits
from paceline.plan.roofline import Weights
from tests.tiny_models import SPECS, Bench

LIMITS = Limits(bytes_per_s=10e9, ops_per_s=100e9)


def test_limits_count_what_was_read_and_multiplied():
    limits = measure_limits()
    assert limits.bytes_per_s > 0
    assert limits.ops_per_s > 0
    assert library().pl_multiply(3) == 3 * library().pl_multiply(1)


def test_a_product_stands_beside_the_longer_of_its_two_limits():
    size_bytes = packed_bytes("Q4_K", OUT_FEATURES, IN_FEATURES)
    one, many = measure_products("Q4_K", (1, 32), LIMITS)
    assert one.limit_ms == pytest.approx(1e3 * size_bytes / 10e9)
    assert many.limit_ms == pytest.approx(1e3 * 2 * 32 * OUT_FEATURES * IN_FEATURES / 100e9)
    for cost in (one, many):
        assert cost.gb_per_s * cost.ms == pytest.approx(size_bytes / 1e6)
        assert cost.percent_of_stream == pytest.approx(10 * cost.gb_per_s)


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
