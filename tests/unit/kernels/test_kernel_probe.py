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
from paceline.kernels.probe import (
    READ_BYTES,
    ROUNDS,
    Limits,
    measure_limits,
    times_beside_limits,
    times_of_each,
)
from paceline.plan.roofline import Weights
from tests.tiny_models import SPECS, Bench

LIMITS = Limits(bytes_per_s=10e9, ops_per_s=100e9)


@pytest.fixture
def known_limits(monkeypatch):
    """The works are timed, and the machine is said to give `LIMITS`."""
    for place in ("kernels", "rows"):
        monkeypatch.setattr(
            f"paceline.bench.{place}.times_beside_limits",
            lambda works, turns=1: (times_beside_limits(works, turns)[0], LIMITS),
        )


def test_limits_count_what_was_read_and_multiplied():
    limits = measure_limits()
    assert limits.bytes_per_s > 0
    assert limits.ops_per_s > 0
    assert library().pl_multiply(3) == 3 * library().pl_multiply(1)


def test_a_product_stands_beside_the_longer_of_its_two_limits(known_limits):
    weight = blank_weight("Q4_K")
    (one, many), limits = measure_products([weight], (1, 32))
    assert limits == LIMITS
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
    found = times_of_each([lambda: order.append("a"), lambda: order.append("b")], turns=2)
    assert order == ["a", "a", "b", "b"] * 2
    assert [len(seconds) for seconds in found] == [2, 2]
    assert min(map(min, found)) >= 0


def test_the_machine_s_limits_are_measured_in_the_works_turns(monkeypatch):
    def take_turns(works, turns):
        assert len(works) == 3
        assert works[-1] is work
        assert turns == 3
        return [[0.5, 0.4, 0.6], [0.3, 0.25, 0.1], [7.0, 8.0, 9.0]]

    def work() -> None: ...

    monkeypatch.setattr("paceline.kernels.probe.times_of_each", take_turns)
    operations = 2 * library().pl_multiply(1) * ROUNDS
    limits = Limits(bytes_per_s=READ_BYTES / 0.5, ops_per_s=operations / 0.25)
    assert times_beside_limits([work], 3) == ([[7.0, 8.0, 9.0]], limits)


def test_a_pass_reads_its_context_too(known_limits):
    bench = Bench(SPECS["grouped heads, tied"], num_slots=40)
    sizes = Weights(weight_bytes=1e6, params=2e6)
    costs, limits = measure_passes(
        NativeProgram(bench.program).run, bench.kv, sizes, (1, 8), turns=3
    )
    assert limits == LIMITS
    assert [cost.rows for cost in costs] == [1, 8]
    slot_bytes = 2 * 2 * 2 * 16 * 4  # keys and values, layers, heads, size, float32
    for cost in costs:
        scan_s = max(1e6 / 10e9, 2 * 2e6 * cost.rows / 100e9)
        expected_s = scan_s + slot_bytes * (32 + cost.rows) / 10e9
        assert cost.limit_ms == pytest.approx(1e3 * expected_s)
        assert cost.gb_per_s * cost.ms == pytest.approx(1.0)
