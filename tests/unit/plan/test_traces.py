"""Agreement: drawn, recorded and replayed."""

from __future__ import annotations

import random

import pytest

from paceline.errors import ConfigError
from paceline.plan.traces import Phases, Rates, Trace, rate_by_position, runs, trace_of


def test_recorded_passes_replay_as_they_were():
    passes = [(4, 2), (2, 2), (3, 0), (4, 4), (1, 0)]
    trace, rng, position = trace_of(passes), random.Random(0), 0
    assert trace.agrees[:5] == (True, True, False, True, True)
    for proposed, accepted in passes:
        assert trace.accepted(position, proposed, rng) == accepted
        position += accepted + 1
    assert position == len(trace.agrees)


def test_other_lengths_replay_from_the_same_agreement():
    trace, rng = Trace((True, True, False, True)), random.Random(0)
    assert [trace.accepted(0, k, rng) for k in (0, 1, 2, 8)] == [0, 1, 2, 2]
    assert trace.accepted(3, 8, rng) == 3
    assert trace.rate == 0.75


def test_rate_by_position_is_conditional():
    """Agreement in runs of 4 after every break: of 5 starts 4 agree, of those 3 again, …"""
    assert rate_by_position((True, True, True, True, False), 4) == pytest.approx(
        [4 / 5, 3 / 4, 2 / 3, 1 / 2]
    )
    assert rate_by_position((False,), 2) == [0, 0]
    assert rate_by_position((True,) * 3, 2) == [1, 1]


def test_runs_are_those_that_a_replay_accepts():
    rng = random.Random(0)
    agrees = tuple(rng.random() < 0.7 for _ in range(50))
    replayed = [Trace(agrees).accepted(position, 4, rng) for position in range(50)]
    assert runs(agrees, 4) == replayed[::-1]


def test_nothing_to_replay():
    with pytest.raises(ConfigError, match="empty"):
        Trace(())
    with pytest.raises(ConfigError, match="drafts"):
        trace_of([(0, 0)])


def test_rates_by_position():
    rng = random.Random(0)
    runs = [Rates((0.5, 1.0)).accepted(0, 3, rng) for _ in range(1000)]
    assert set(runs) == {0, 3}
    assert sum(runs) == pytest.approx(1500, abs=150)


def test_phases():
    phases = Phases(((0, Rates((1.0,))), (10, Rates((0.0,)))))
    rng = random.Random(0)
    assert [phases.accepted(position, 3, rng) for position in (0, 9, 10, 50)] == [3, 3, 0, 0]
