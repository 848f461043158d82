"""The nearest rising sequence."""

from __future__ import annotations

import itertools

import pytest

from paceline.plan.isotonic import interpolate, isotonic


def test_worked_example():
    assert isotonic([1, 3, 2, 4]) == [1, 2.5, 2.5, 4]
    assert isotonic([3, 1], [1, 3]) == [1.5, 1.5]
    assert isotonic([]) == []


def test_nothing_rising_on_a_grid_is_nearer():
    values, weights = [2.0, 1.0, 3.0, 0.0], [1.0, 2.0, 1.0, 1.0]
    found = isotonic(values, weights)

    def distance(candidate):
        return sum(w * (c - v) ** 2 for c, v, w in zip(candidate, values, weights, strict=True))

    grid = [i / 6 for i in range(19)]
    rising = itertools.combinations_with_replacement(grid, 4)
    assert distance(found) <= min(map(distance, rising)) + 1e-9
    assert found == sorted(found)


def test_interpolation_is_level_outside():
    knots, values = (2, 3, 5), (10, 20, 0)
    found = [interpolate(x, knots, values) for x in (0, 2, 2.5, 4, 5, 9)]
    assert found == pytest.approx([10, 10, 15, 10, 0, 0])
