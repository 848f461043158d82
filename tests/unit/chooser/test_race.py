"""The race: the same noise whatever shares it, and only runs that cannot win are left undrawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.chooser import Keyed
from paceline.chooser.bits import MASK, mix, uniform
from paceline.chooser.race import FEW, RUN, finish

STEP = 0x9E3779B97F4A7C15


def noise(key, token):
    """The exponential of one id, in scalar arithmetic."""
    run, lane = divmod(token, RUN)
    bits = mix((key + (run + 1) * STEP) & MASK)
    first = -math.log(uniform(bits)) / RUN
    if bits % RUN == lane:
        return first
    return first - math.log(uniform(mix((bits + (lane + 1) * STEP) & MASK)))


def order(law, key):
    """All ids with weight, in order of arrival."""
    times = {token: noise(key, token) / p for token, p in enumerate(law) if p > 0}
    return sorted(times, key=times.__getitem__)


def laws(V):
    rng = np.random.default_rng(V)
    spiky = rng.dirichlet(np.full(V, 0.02))
    sparse = np.where(rng.random(V) < 3 / V, rng.random(V), 0.0)
    sparse[V - 1] = 0.5
    return [rng.dirichlet(np.ones(V)), spiky, sparse / sparse.sum(), np.full(V, 1 / V)]


@pytest.mark.parametrize("V", [2, RUN, RUN + 1, 1_000, FEW * RUN + 5, 9_600])
def test_race_equals_scalar_arithmetic(V):
    for index, law in enumerate(laws(V)):
        chooser = Keyed(index, 2, 9)
        places = order(law, chooser.race_key(4))
        for rank in (0, 1, 2, 11):
            assert chooser.race(law, 4, rank) == places[min(rank, len(places) - 1)]


@pytest.mark.parametrize("V", [5, 700, 9_600])
def test_many_races_at_once_are_the_same_races(V):
    table = np.array(laws(V))
    keys = [Keyed(1).race_key(t) for t in range(len(table))]
    for rank in (0, 3):
        alone = [finish(law[None], [key], rank)[0] for law, key in zip(table, keys, strict=True)]
        assert finish(table, keys, rank) == alone


def test_noise_is_the_positions_alone():
    law = laws(300)[0]
    for position in range(20):
        winner = Keyed(5, 1, 0).race(law, position)
        assert Keyed(5, 1, 3).race(law, position) == winner
        assert Keyed(5, 1).race(law * 7, position) == winner
    winners = {Keyed(5, 1).race(law, t) for t in range(20)}
    assert len(winners) > 10
    assert [Keyed(6, 1).race(law, t) for t in range(20)] != [
        Keyed(5, 1).race(law, t) for t in range(20)
    ]
    assert [Keyed(5, 2).race(law, t) for t in range(20)] != [
        Keyed(5, 1).race(law, t) for t in range(20)
    ]


def test_ids_without_weight_take_no_part():
    law = np.zeros(500)
    law[[3, 402]] = 0.5
    found = {Keyed(seed).race(law, 0, rank) for seed in range(30) for rank in range(4)}
    assert found == {3, 402}
    cut = np.zeros(403)
    cut[[3, 402]] = 0.5
    for seed in range(30):
        assert Keyed(seed).race(cut, 0) == Keyed(seed).race(law, 0)


def test_the_smallest_numbers_do_not_disturb():
    law = np.array([5e-324, 1.0, 1e-310])
    assert {Keyed(seed).race(law, 0) for seed in range(50)} == {1}
