"""The table of devices."""

from __future__ import annotations

import pytest

from paceline.errors import UnknownNameError
from paceline.plan.devices import DEVICES, device
from paceline.plan.roofline import Weights, flat_rows


def test_worked_example():
    machine = device("H100").machine
    assert machine.bytes_per_s == pytest.approx(2.68e12)
    assert machine.flops_per_s == pytest.approx(593.4e12)
    assert device(" rtx 4090 ") is DEVICES["rtx-4090"]


def test_a_typo_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'h100'"):
        device("h1000")


@pytest.mark.parametrize("name", DEVICES)
def test_figures_are_of_the_right_size_and_have_a_source(name):
    """A slip of a power of ten in either figure moves a 16-bit model's M* out of 30 .. 500 rows."""
    one = device(name)
    assert len(one.source) > 10
    weights = Weights(weight_bytes=16e9, params=8e9)
    assert 15 <= flat_rows(one.machine, weights) <= 500
    assert 5e9 < one.memory_bytes < 1e13
