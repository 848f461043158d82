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
    assert gaps == [16, 32, LAST_GAP, LAST_GAP, 16, 4, 1]
    patience.answer(False)
    assert patience.gap == FIRST_GAP


def test_only_what_is_unused_waits_and_the_longest_is_first():
    prober = Prober()
    for _ in range(FIRST_GAP):
        prober.pass_by(10, {"b"}, {"a"})
    prober.pass_by(10, set(), {"a", "b"})
    assert prober.due() == ["a"]
    for _ in range(FIRST_GAP):
        prober.pass_by(10, set(), {"a", "b"})
    assert prober.due() == ["a", "b"]
    prober.answer("b", False, 0.0, course=2)
    assert prober.due() == ["b", "a"]  # what was begun goes on
    prober.pass_by(10, {"a"}, {"b"})
    assert prober.due() == ["b"]


def test_losses_are_bounded_whatever_the_probes_cost():
    prober, plain_ms = Prober(), 10.0
    for _ in range(2000):
        prober.pass_by(plain_ms, set(), {"a"})
        if prober.due() and prober.affordable("a", 35.0, plain_ms):
            prober.answer("a", False, 35.0)
        assert prober.lost_ms <= ALLOWANCE_PASSES * plain_ms + SHARE * prober.elapsed_ms
    assert prober.lost_ms > 0.5 * SHARE * prober.elapsed_ms


def test_a_first_trial_is_not_counted():
    prober, plain_ms = Prober(), 10.0
    assert prober.affordable("a", 1e6, plain_ms)
    prober.answer("a", False, 300.0, course=2)
    assert "a" not in prober.known  # its second pass is part of it
    prober.answer("a", False, 300.0, course=2)
    assert prober.lost_ms == 0
    assert prober.affordable("a", ALLOWANCE_PASSES * plain_ms, plain_ms)
    assert not prober.affordable("a", ALLOWANCE_PASSES * plain_ms + 1, plain_ms)
    prober.answer("a", False, 5.0)
    assert prober.lost_ms == 5
    prober.pass_by(10, {"b"}, {"a"})
    assert "b" in prober.known  # what was in use needs no first trial


def test_a_trial_of_several_passes_is_judged_as_one():
    patience = Patience(waited=8)
    for success in (False, True, False):
        assert (patience.waited, patience.gap) == (8, FIRST_GAP)
        patience.answer(success, course=3)
    assert (patience.waited, patience.gap, patience.left) == (0, FIRST_GAP // 4, 0)


def test_a_first_trial_that_was_cut_short_is_not_free_again():
    prober = Prober()
    prober.answer("a", False, 300.0, course=2)
    assert prober.begun("a")
    prober.put_off("a")
    assert not prober.begun("a")
    assert not prober.affordable("a", ALLOWANCE_PASSES * 10.0 + 1, 10.0)
    prober.pass_by(10.0, set(), {"b"})
    prober.put_off("b")
    assert prober.affordable("b", 1e6, 10.0)


def test_what_cannot_be_tried_is_looked_at_ever_more_seldom():
    prober, looked = Prober(patience={"a": Patience()}), []
    for number in range(100):
        prober.pass_by(10, set(), {"a"})
        if prober.due():
            looked.append(number + 1)
            prober.put_off("a")
    assert looked == [8, 16, 32, 64]


def test_a_probe_that_won_costs_nothing():
    prober = Prober(known={"a"})
    prober.answer("a", True, -5.0)
    assert prober.lost_ms == 0
