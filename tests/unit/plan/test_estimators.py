"""Acceptance rates from what was observed."""

from __future__ import annotations

import random

import pytest

from paceline.errors import ConfigError
from paceline.plan.estimators import (
    Calibration,
    Counts,
    alphas_by_position,
    by_rule,
    constant_alpha,
    extended,
    total,
)
from paceline.plan.throughput import expected_tokens_conditional
from paceline.plan.traces import Rates


def test_counting():
    counts = Counts.of([(4, 2), (4, 4)])
    assert counts.reached == (2, 2, 2, 1)
    assert counts.survived == (2, 2, 1, 1)
    both = total([counts, Counts.of([(1, 0)])])
    assert (both.reached, both.survived) == ((3, 2, 2, 1), (2, 2, 1, 1))


def test_constant_alpha():
    posterior = constant_alpha(Counts((3, 2), (2, 1)))
    assert (posterior.a, posterior.b) == (3.5, 2.5)


def test_positions_lean_on_the_one_before():
    first, second = alphas_by_position(Counts((8, 4), (6, 4)))
    assert (first.a, first.b) == (6.5, 2.5)
    assert second.mean == pytest.approx((3 * 6.5 / 9 + 4) / 7) == pytest.approx(0.881, abs=5e-4)


def test_rates_are_found_again():
    """2000 passes of (.6, .9, .5): within .05, more than 3 standard errors; and so is E."""
    rng, rates = random.Random(1), Rates((0.6, 0.9, 0.5))
    counts = Counts.of([(3, rates.accepted(0, 3, rng)) for _ in range(2000)])
    found = [posterior.mean for posterior in alphas_by_position(counts)]
    assert found == pytest.approx([0.6, 0.9, 0.5], abs=0.05)
    assert expected_tokens_conditional(found) == pytest.approx(1 + 0.6 + 0.54 + 0.27, abs=0.1)


def test_rules_are_apart():
    found = by_rule([("a", "x", 2, 2), ("a", "y", 2, 0), ("a", "x", 2, 1)])
    assert found["a", "x"].survived == (2, 1)
    assert found["a", "y"].survived == (0,)


def test_extended():
    assert extended([0.5, 0.9], 4) == [0.5, 0.9, 0.9, 0.9]
    assert extended([0.5, 0.9], 1) == [0.5]
    with pytest.raises(ConfigError, match="measure"):
        extended([], 2)


def test_calibration_worked():
    assert Calibration.fit([(0.9, True), (0.9, False)], bins=1).rate(0.9) == 0.5
    with pytest.raises(ConfigError, match="confidences"):
        Calibration.fit([])


def test_an_overconfident_drafter_is_set_right():
    """Acceptance is the square of the confidence: as it stands the error is .17, calibrated below
    .03 on pairs that were not fitted to, and the map rises.
    """
    rng = random.Random(2)

    def pairs(count):
        for _ in range(count):
            confidence = rng.random()
            yield confidence, rng.random() < confidence**2

    found, fresh = Calibration.fit(pairs(4000)), list(pairs(4000))
    naive = Calibration((0.0, 1.0), (0.0, 1.0))
    assert naive.error(fresh) == pytest.approx(1 / 6, abs=0.03)
    assert found.error(fresh) < 0.03
    assert list(found.rates) == sorted(found.rates)
    assert found.rate(0.5) == pytest.approx(0.25, abs=0.06)
