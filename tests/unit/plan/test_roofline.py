"""The roofline of a pass."""

from __future__ import annotations

import pytest

from paceline.plan.roofline import Machine, Weights, flat_rows, pass_time_s

MACHINE = Machine(bytes_per_s=1.4e12, flops_per_s=280e12)
WEIGHTS = Weights(weight_bytes=14e9, params=7e9)


def test_the_worked_example():
    assert flat_rows(MACHINE, WEIGHTS) == pytest.approx(200)
    assert pass_time_s(MACHINE, WEIGHTS, 1) == pytest.approx(10e-3)
    assert pass_time_s(MACHINE, WEIGHTS, 5) == pytest.approx(10e-3)
    assert pass_time_s(MACHINE, WEIGHTS, 512) == pytest.approx(25.6e-3)


def test_it_is_flat_up_to_m_star_and_rises_after_it():
    flat = round(flat_rows(MACHINE, WEIGHTS))
    times = [pass_time_s(MACHINE, WEIGHTS, rows) for rows in (1, flat, flat + 20)]
    assert times == pytest.approx([10e-3, 10e-3, 11e-3])


def test_keys_and_values_are_read_besides():
    assert pass_time_s(MACHINE, WEIGHTS, 1, kv_bytes=1.4e9) == pytest.approx(11e-3)


def test_fewer_bits_a_weight_shorten_the_flat_part():
    """4-bit weights: a quarter of the time, and a quarter of the free rows."""
    small = Weights(weight_bytes=3.5e9, params=7e9)
    assert flat_rows(MACHINE, small) == pytest.approx(50)
    assert pass_time_s(MACHINE, small, 1) == pytest.approx(2.5e-3)
