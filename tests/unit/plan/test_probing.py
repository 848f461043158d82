"""Probes: how long they wait and what they may lose."""

from __future__ import annotations

from paceline.plan.probing import (
    ALLOWANCE_PASSES,
    FIRST_GAP,
    LAST_GAP,
    SHARE,
    Patience,
    Prober,
)


def test_patience_doubles_to_a_limit_and_shortens_on_success():
    patience, gaps = Patience(), []
    for success in (False, False, False, False, True, True, True):
        patience.answer(success)
        gaps.append(patience.gap)
    assert gaps == [16, 32, LAST_GAP, LAST_GAP, 8, 2, 1]
    patience.answer(False)
    assert patience.gap == FIRST_GAP


def test_only_what_is_unused_waits_and_the_longest_is_first():
    prober = Prober()
    for _ in range(FIRST_GAP):
        prober.pass_by(10, {"a"})
    prober.pass_by(10, {"a", "b"})
    assert prober.due() == ["a"]
    for _ in range(FIRST_GAP):
        prober.pass_by(10, {"a", "b"})
    assert prober.due() == ["a", "b"]
    prober.pass_by(10, {"b"})
    assert prober.due() == ["b"]


def test_losses_are_bounded_whatever_the_probes_cost():
    prober, plain_ms = Prober(), 10.0
    for _ in range(2000):
        prober.pass_by(plain_ms, {"a"})
        if prober.due() and prober.affordable(35.0, plain_ms):
            prober.answer("a", False, 35.0)
        assert prober.lost_ms <= ALLOWANCE_PASSES * plain_ms + SHARE * prober.elapsed_ms
    assert prober.lost_ms > 0.5 * SHARE * prober.elapsed_ms


def test_a_probe_that_won_costs_nothing():
    prober = Prober()
    prober.answer("a", True, -5.0)
    assert prober.lost_ms == 0
