"""The throughput formulas: worked values, identities, and brute force where there is any."""

from __future__ import annotations

import itertools

import pytest

from paceline.errors import ConfigError
from paceline.plan.throughput import (
    best_k,
    break_even_alpha,
    expected_tokens,
    expected_tokens_conditional,
    measured_speedup,
    operations_growth,
    speedup,
)

C = 1 / 30


def test_expected_tokens():
    assert expected_tokens(0.65, 4) == pytest.approx(2.53, abs=5e-3)
    assert expected_tokens(0.8, 0) == pytest.approx(1)
    assert expected_tokens(0, 5) == 1
    assert expected_tokens(1, 5) == 6
    assert expected_tokens(1 - 1e-9, 5) == pytest.approx(6, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 1.0])
def test_expected_tokens_by_enumerating_which_positions_are_accepted(alpha: float):
    total = 0.0
    for accepts in itertools.product((True, False), repeat=5):
        probability = 1.0
        for accepted in accepts:
            probability *= alpha if accepted else 1 - alpha
        run = next((i for i, accepted in enumerate(accepts) if not accepted), 5)
        total += probability * (run + 1)
    assert expected_tokens(alpha, 5) == pytest.approx(total)


def test_expected_tokens_with_one_alpha_a_position():
    assert expected_tokens_conditional(()) == 1
    assert expected_tokens_conditional((0.8, 0.5)) == pytest.approx(2.2)
    assert expected_tokens_conditional((0.7,) * 6) == pytest.approx(expected_tokens(0.7, 6))


def test_positions_that_go_together_are_not_the_product_of_their_means():
    """Half the texts accept everything, half nothing: the mean rates, .5 at each of 3 positions,
    would give 1.875; the conditional ones, (.5, 1, 1), give the true 2.5.
    """
    assert expected_tokens_conditional((0.5, 1, 1)) == 2.5
    assert expected_tokens(0.5, 3) == 1.875


@pytest.mark.parametrize(("k", "alpha"), [(2, 0.0627), (4, 0.1177), (8, 0.2105)])
def test_break_even(k: int, alpha: float):
    exact = break_even_alpha(k, C)
    assert exact == pytest.approx(alpha, abs=5e-5)
    assert speedup(exact - 1e-10, k, C) < 1 < speedup(exact + 1e-10, k, C)
    assert expected_tokens(exact, k) == pytest.approx(1 + k * C, abs=1e-12)


def test_break_even_in_closed_form():
    """For k = 1 it is c itself; for k = 2 the root of a + a^2 = 2c."""
    assert break_even_alpha(1, 0.3) == pytest.approx(0.3, abs=1e-12)
    assert break_even_alpha(2, 0.1) == pytest.approx((1.8**0.5 - 1) / 2, abs=1e-12)
    assert break_even_alpha(3, 0) == pytest.approx(0, abs=1e-12)
    assert break_even_alpha(3, 1) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "k", "gain", "error"),
    [
        (0.55, 4, 1.862, 5e-4),
        (0.8, 9, 3.433, 5e-4),
        (0.9, 16, 5.434, 5e-4),
        (0.99, 66, 15.31, 5e-3),
    ],
)
def test_best_k(alpha: float, k: int, gain: float, error: float):
    assert best_k(alpha, C) == k
    assert speedup(alpha, k, C) == pytest.approx(gain, abs=error)


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3, 0.77, 0.95])
@pytest.mark.parametrize("c", [0.01, 0.2, 0.9, 1.5])
def test_best_k_is_the_best_of_all(alpha: float, c: float):
    assert best_k(alpha, c) == max(range(400), key=lambda k: speedup(alpha, k, c))


def test_measured_speedup():
    assert measured_speedup(2.53, 50, 60, 8) == pytest.approx(1.860, abs=5e-4)
    flat = measured_speedup(expected_tokens(0.8, 4), 30, 30, 4 * 1)
    assert flat == pytest.approx(speedup(0.8, 4, C))


def test_operations_growth():
    assert operations_growth(0.8, 5, 0.05) == pytest.approx(1.694, abs=5e-4)
    assert operations_growth(0.8, 0, 0.05) == pytest.approx(1)
    assert operations_growth(1, 5, 0) == 1
    closed = (1 - 0.6) * (3 * 0.1 + 3 + 1) / (1 - 0.6**4)
    assert operations_growth(0.6, 3, 0.1) == pytest.approx(closed)


@pytest.mark.parametrize(
    "call",
    [
        lambda: expected_tokens(1.1, 2),
        lambda: expected_tokens(0.5, -1),
        lambda: expected_tokens_conditional((0.5, -0.1)),
        lambda: break_even_alpha(0, 0.1),
        lambda: break_even_alpha(4, 1.1),
        lambda: best_k(1, 0.1),
        lambda: best_k(0.5, 0),
    ],
)
def test_what_has_no_answer_is_refused(call):
    with pytest.raises(ConfigError):
        call()
