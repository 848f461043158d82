"""The alarm of acceptance drift: silent while the rate wavers, loud when it falls."""

from __future__ import annotations

import random

import pytest

from paceline.metrics.drift import LEAST_TOKENS, RECENT_TOKENS, Drift


def feed(drift: Drift, rate: float, tokens: int, seed: int = 0) -> list[bool]:
    """Requests of 50 proposed tokens; whether the alarm was on after each."""
    rng = random.Random(seed)
    alarms = []
    for _ in range(tokens // 50):
        drift.add(50, sum(rng.random() < rate for _ in range(50)))
        alarms.append(drift.alarm)
    return alarms


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_a_steady_rate_raises_no_alarm(rate: float) -> None:
    """sglang 28771. With p = 0.2 the recent mean's error is 0.011, a fall of a quarter is 0.05."""
    drift = Drift()
    assert not any(feed(drift, rate, 100_000))
    assert drift.usual.mean == pytest.approx(rate, abs=0.02)


def test_a_fall_is_told_and_stays_told_until_it_is_over() -> None:
    drift = Drift()
    feed(drift, 0.8, 40_000)
    alarms = feed(drift, 0.4, 100_000)
    first = alarms.index(True) * 50
    assert first < 2 * RECENT_TOKENS
    assert all(alarms[alarms.index(True) :])
    assert feed(drift, 0.8, 10 * RECENT_TOKENS)[-1] is False


def test_too_few_tokens_tell_nothing() -> None:
    drift = Drift()
    feed(drift, 0.9, LEAST_TOKENS // 2)
    assert not any(feed(drift, 0.1, LEAST_TOKENS // 4))


def test_plain_decoding_is_no_drift() -> None:
    drift = Drift()
    feed(drift, 0.8, 40_000)
    before = drift.recent.mean
    drift.add(0, 0)
    assert (drift.recent.mean, drift.alarm) == (before, False)
