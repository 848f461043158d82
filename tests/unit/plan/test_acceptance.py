"""Overlap, distance and residual of two laws."""

from __future__ import annotations

import pytest

from paceline.errors import ConfigError
from paceline.plan.acceptance import acceptance_rate, residual, total_variation

P = (0.2, 0.3, 0.35, 0.15)
Q = (0.35, 0.25, 0.25, 0.15)


def test_the_worked_example():
    assert acceptance_rate(P, Q) == pytest.approx(0.85)
    assert total_variation(P, Q) == pytest.approx(0.15)
    assert residual(P, Q) == pytest.approx([0, 1 / 3, 2 / 3, 0])


def test_accepted_and_residual_mass_make_up_the_target():
    """min(p, q) + (1 - alpha) residual = p, at every id."""
    p, q = [0.2, 0.3, 0.35, 0.15, 0.0], [0.35, 0.25, 0.25, 0.0, 0.15]
    rejected = 1 - acceptance_rate(p, q)
    made = [min(a, b) + rejected * r for a, b, r in zip(p, q, residual(p, q), strict=True)]
    assert made == pytest.approx(p)


def test_one_is_the_complement_of_the_other():
    assert acceptance_rate(P, Q) == pytest.approx(1 - total_variation(P, Q))
    assert (acceptance_rate(P, P), total_variation(P, P)) == (pytest.approx(1), 0)
    assert (acceptance_rate((1, 0), (0, 1)), total_variation((1, 0), (0, 1))) == (0, 1)


def test_equal_laws_have_no_residual():
    with pytest.raises(ConfigError, match="no residual"):
        residual(P, P)
