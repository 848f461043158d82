"""Plans on paper."""

from __future__ import annotations

import math

import pytest

from paceline.errors import ConfigError
from paceline.plan.devices import device
from paceline.plan.paper import Pair, costs_on, parse_count, plan_on_paper

PAIR = Pair(target_params=70e9, draft_params=1e9)


def test_worked_example():
    costs = costs_on(device("h100"), PAIR)
    assert costs.step_ms(1, 0) == pytest.approx(52.2, abs=0.05)
    assert costs.step_ms(1, 1) - costs.step_ms(1, 0) == pytest.approx(0.746, abs=5e-4)


def test_k_falls_with_the_batch_and_the_limits_are_told():
    found = plan_on_paper(device("h100"), PAIR, [0.7], [64, 1, 256], max_k=12)
    assert [one.batch for one in found.lengths] == [1, 64, 256]
    ks = [one.k for one in found.lengths]
    assert ks == sorted(ks, reverse=True)
    assert ks[0] == 8
    assert found.flat_rows == pytest.approx(593.4e12 / 2.68e12, rel=1e-3)
    assert found.switch_off_batch is not None
    assert 110 < found.switch_off_batch <= 256
    assert found.fits is False
    assert plan_on_paper(device("h200"), Pair(target_params=8e9), [0.5], [1]).fits


def test_context_weighs_on_large_batches():
    heavy = Pair(target_params=8e9, kv_bytes_per_token=131072)
    short, long = (plan_on_paper(device("a100"), heavy, [0.7], [32], c) for c in (0, 8000))
    assert long.lengths[0].step_ms > 2 * short.lengths[0].step_ms


@pytest.mark.parametrize(
    ("text", "count"), [("7e9", 7e9), ("7B", 7e9), (" 0.5b", 5e8), ("500M", 5e8), ("1t", 1e12)]
)
def test_counts(text, count):
    assert parse_count(text) == count


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="write 7B"):
        parse_count("big")
    with pytest.raises(ConfigError, match="1 to 32 bits"):
        Pair(target_params=1e9, target_bits=0)
    with pytest.raises(ConfigError, match="parameters"):
        Pair(target_params=0)
    with pytest.raises(ConfigError, match="keys and values"):
        Pair(target_params=1e9, kv_bytes_per_token=math.nan)
    for alphas, batches in (([0.7], [0]), ([0.7], [2**21]), ([1.2], [1]), ([], [1]), ([0.5], [])):
        with pytest.raises(ConfigError, match="A plan needs"):
            plan_on_paper(device("l4"), PAIR, alphas, batches)
