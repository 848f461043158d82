"""Live costs: they find the truth from a wrong prior, follow the machine, and shrug off hiccups."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from paceline.plan.costs import FREE, CostCurve, DraftCosts
from paceline.plan.live import FEW, MEMORY, STALE, LiveCosts, LiveDraftCosts, near

PRIOR = CostCurve((1, 64), (20, 30))
TRUTH = CostCurve((1, 8, 32), (25, 40, 150), 0.001)


def taught(passes: int, pace: float = 1.0, live: LiveCosts | None = None) -> LiveCosts:
    rng, live = random.Random(0), live or LiveCosts(CostCurve((1, 64), (20, 30), 0.001))
    for _ in range(passes):
        rows = rng.choice((1, 4, 8, 16, 24))
        noise = rng.lognormvariate(0, 0.03)
        live.observe(rows, 500, pace * TRUTH.ms(rows, 500) * noise)
    return live


def test_shares_of_knots():
    assert near(4) == [(3, 1.0)]
    assert near(10) == [(6, 0.5), (7, 0.5)]
    assert near(9999) == [(19, 1.0)]


def test_a_wrong_prior_is_unlearnt():
    live = taught(60)
    for rows in (1, 4, 8, 16, 24):
        assert live.ms(rows, 500) == pytest.approx(TRUTH.ms(rows, 500), rel=0.06)
    assert live.ms(1, 1500) - live.ms(1, 500) == pytest.approx(1.0)


def test_one_pass_moves_a_curve_nobody_measured():
    live = LiveCosts(PRIOR)
    live.observe(10, 0, 2 * PRIOR.ms(10))
    assert live.ms(10) == pytest.approx(2 * PRIOR.ms(10))
    assert live.ms(64) == pytest.approx(60)


def test_rows_in_between_follow_what_was_measured_around_them():
    live = LiveCosts(PRIOR)
    for _ in range(20):
        live.observe(4, 0, 1.0 * PRIOR.ms(4))
        live.observe(24, 0, 3.0 * PRIOR.ms(24))
    assert live.ms(14) == pytest.approx(3**0.5 * PRIOR.ms(14), rel=0.03)


def test_more_rows_never_cost_less():
    live = LiveCosts(PRIOR)
    rng = random.Random(1)
    for _ in range(200):
        live.observe(rng.randint(1, 40), 0, rng.uniform(5, 80))
    costs = [live.ms(rows) for rows in range(1, 60)]
    assert all(b >= a - 1e-9 for a, b in pairwise(costs))


def test_a_slower_machine_is_slower_at_rows_not_measured_since():
    live = taught(100)
    before = live.ms(24)
    for _ in range(40):
        live.observe(4, 0, 2 * TRUTH.ms(4))
    assert live.ms(4) == pytest.approx(2 * TRUTH.ms(4), rel=0.1)
    assert live.ms(24) > 1.4 * before


def test_one_hiccup_hardly_matters():
    live = taught(100)
    before = live.ms(8)
    live.observe(8, 0, 50 * before)
    assert live.ms(8) < 1.05 * before


def test_a_slower_machine_is_slower_at_about_as_many_rows_most():
    live = taught(100)
    for _ in range(MEMORY):
        live.observe(16, 0, TRUTH.ms(16))
    before = [live.ms(rows) for rows in (4, 16, 24)]
    for _ in range(40):
        live.observe(16, 0, 2 * TRUTH.ms(16))
    few, own, near_by = (live.ms(rows) / ms for rows, ms in zip((4, 16, 24), before, strict=True))
    assert own == pytest.approx(2, rel=0.1)
    assert near_by > 0.9 * own
    assert 1.5 < few < near_by


def test_rows_that_were_not_measured_for_long_are_believed_sooner():
    fresh, stale = taught(100), taught(100)
    for rows in [4] * MEMORY + [8] * 4 * STALE:
        stale.observe(rows, 0, TRUTH.ms(rows))
    for rows in [8] * 4 * STALE + [4] * MEMORY:
        fresh.observe(rows, 0, TRUTH.ms(rows))
    moved = []
    for live in (fresh, stale):
        before = [live.ms(rows) for rows in (4, 8)]
        live.observe(4, 0, 0.8 * TRUTH.ms(4))
        moved.append([1 - live.ms(rows) / ms for rows, ms in zip((4, 8), before, strict=True)])
    (fresh_own, fresh_other), (stale_own, stale_other) = moved
    assert 2 * fresh_own < stale_own < 0.06
    assert stale_other == pytest.approx(fresh_other, rel=0.2)


def test_draft_costs_follow():
    target = taught(0)
    live = LiveDraftCosts(DraftCosts(0.5, 0.1, CostCurve((1,), (4,))), target)
    assert live.now.ms([3]) == pytest.approx(12.6)
    live.observe([3], 0, 25.2)
    assert live.now.ms([2, 1]) == pytest.approx(2 * (0.5 + 0.2 + 8))
    for _ in range(5):
        live.observe([3], 0, 25.2)
    live.observe([3], 0, 2520)
    assert live.now.ms([3]) < 1.1 * 25.2
    for ms in (0.126, 25.2) * 8:
        live.observe([3], 0, ms)
    assert live.now.ms([3]) == pytest.approx((4 * 0.126 + 4 * 25.2) / 8)
    free = LiveDraftCosts(FREE, target)
    free.observe([3], 0, 1.0)
    assert free.now.ms([3]) == 0


def test_a_draft_nobody_measured_is_as_much_faster_as_the_target():
    target = LiveCosts(CostCurve((1, 8), (30, 48)))
    live = LiveDraftCosts(DraftCosts(passes=CostCurve((1,), (7.5,))), target)
    target.observe(1, 0, 3.0)
    assert live.now.ms([1]) == pytest.approx(0.75)
    assert live.observe([1], 0, 5.0, unread=FEW)
    assert live.now.ms([1]) == pytest.approx(0.75)
    assert not live.observe([1], 0, 0.25, unread=FEW)
    assert live.now.ms([1]) == pytest.approx(0.25)


def test_what_reading_takes_is_learnt_from_long_texts():
    """100 tokens took 62 ms on top of a draft of 2; what a few take says nothing."""
    live = LiveDraftCosts(
        DraftCosts(passes=CostCurve((1,), (2,))), LiveCosts(CostCurve((1,), (30,)))
    )
    assert live.reading_ms(100) == 0
    assert live.observe([1], 0, 64.0, unread=100)
    assert live.reading_ms(50) == pytest.approx(31)
    assert live.now.ms([1]) == pytest.approx(2)
    assert live.observe([1], 0, 40.0, unread=FEW - 1)
    assert live.reading_ms(50) == pytest.approx(31)
    assert live.now.ms([1]) == pytest.approx(2)
    assert not live.observe([1], 0, 1.0, unread=100)  # quicker than a draft: nothing was read
    assert live.reading_ms(50) == pytest.approx(31)
    assert live.now.ms([1]) == pytest.approx(1)


def test_a_cascade_costs_what_its_steps_sum_to():
    """Half of its steps are 3 tokens in 24 ms, half 8 in nothing: 12 ms a step, 2.2 a token.

    However many were free before, a dear one counts whole.
    """
    passes = DraftCosts(passes=CostCurve((1,), (8,)))
    live = LiveDraftCosts(passes, LiveCosts(CostCurve((1,), (30,))))
    for ms, length in [(24.0, 3), *[(0.001, 8)] * 9, *[(24.0, 3), (0.001, 8)] * 4]:
        live.observe([length], 0, ms)
    assert live.now.ms([1]) == pytest.approx(24 / (3 + 8), rel=1e-3)
