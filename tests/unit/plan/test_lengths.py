"""Fixed draft lengths at measured costs."""

from __future__ import annotations

import random

import pytest

from paceline.errors import ConfigError
from paceline.plan.beta import Beta
from paceline.plan.costs import FREE, CostCurve, DraftCosts
from paceline.plan.lengths import (
    Costs,
    best_length,
    break_even_alpha_at,
    by_batch,
    length,
    speedup_interval,
    switch_off_batch,
)
from paceline.plan.throughput import best_k, break_even_alpha, speedup

FLAT = Costs(target=CostCurve((1,), (30,)), draft=DraftCosts(passes=CostCurve((1,), (1,))))
BOUND = Costs(target=CostCurve((1, 8, 16), (10, 10, 20)), draft=FREE)


def test_worked_example():
    found = length((0.8,), 1, 4, FLAT)
    assert (found.tokens, found.step_ms) == (pytest.approx(3.362, abs=5e-4), 34)
    assert found.speedup == pytest.approx(2.966, abs=5e-4)
    assert found.tokens_per_s == pytest.approx(1e3 * 3.3616 / 34)


@pytest.mark.parametrize("alpha", [0.55, 0.8, 0.9])
def test_on_flat_passes_it_is_the_closed_form(alpha):
    found = best_length((alpha,), 1, FLAT, max_k=40)
    assert found.k == best_k(alpha, 1 / 30)
    assert found.speedup == pytest.approx(speedup(alpha, found.k, 1 / 30))
    for k in (2, 4, 8):
        assert break_even_alpha_at(1, k, FLAT) == pytest.approx(break_even_alpha(k, 1 / 30))


def test_k_falls_with_the_batch_until_nothing_pays():
    ks = [one.k for one in by_batch((0.8,), (1, 2, 4, 8), BOUND)]
    assert ks == sorted(ks, reverse=True)
    assert switch_off_batch((0.5,), BOUND, 16) == 6
    assert length((0.5,), 6, 1, BOUND).speedup == pytest.approx(1)
    assert length((0.5,), 5, 1, BOUND).speedup == pytest.approx(1.2)
    assert switch_off_batch((0.9,), FLAT, 16) is None


def test_switch_off_is_from_where_on_nothing_pays():
    """Context makes small batches dear to draft for, arithmetic the large ones."""
    target = CostCurve((1, 64, 128), (10, 10, 20), 0.0005)
    costs = Costs(target=target, draft=DraftCosts(step_ms=7.5), context_tokens=100)
    pays = [best_length((0.7,), batch, costs, 1).k > 0 for batch in range(1, 257)]
    off = switch_off_batch((0.7,), costs, 256, 1)
    assert not pays[0]
    assert (pays[off - 2], any(pays[off - 1 :])) == (True, False)
    assert switch_off_batch((0.7,), costs, off - 1, 1) is None
    assert switch_off_batch((0.0,), costs, 256, 1) == 1


def test_break_even_where_none_is_possible():
    assert break_even_alpha_at(8, 1, BOUND) is None
    assert break_even_alpha_at(1, 4, BOUND) == 0
    with pytest.raises(ConfigError, match="k >= 1"):
        break_even_alpha_at(1, 0, FLAT)


def test_interval_of_a_speedup():
    """Rates measured by 40 passes a position: the 90 % interval holds the true speedup in at least
    85 % of 60 cells, and is the wider for it when costs are uncertain too.
    """
    rng, held = random.Random(4), 0
    for _ in range(60):
        alpha = rng.uniform(0.3, 0.95)
        hits = sum(rng.random() < alpha for _ in range(40))
        found = speedup_interval([Beta.of(hits, 40)], 1, 4, FLAT)
        held += length((alpha,), 1, 4, FLAT).speedup in found
    assert held >= 51
    sure = speedup_interval([Beta(30, 10)], 1, 4, FLAT)
    noisy = Costs(target=CostCurve((1,), (30,), 0.0, (0.1,) * 20), draft=FLAT.draft)
    unsure = speedup_interval([Beta(30, 10)], 1, 4, noisy)
    assert unsure.low < sure.low < sure.middle < sure.high < unsure.high
    assert speedup_interval([Beta(30, 10)], 1, 0, FLAT).high == 1
    assert speedup_interval([Beta(30, 10)], 1, 4, noisy) == unsure
