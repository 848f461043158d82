"""Keyed draws: pure functions of their addresses, uniform, and never to change silently."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from paceline.chooser import Draw, Keyed, Purpose
from paceline.chooser.bits import MASK, exponentials, hash_key, mix, mix_array, streams, uniform
from paceline.chooser.keyed import invert

HERE = Draw(3, 1, 0, Purpose.ACCEPT)


def test_golden_values():
    """A change here changes the text of every seed that anyone has noted down."""
    assert mix(1) == 6238072747940578789
    assert hash_key() == 0
    assert hash_key(7, 0, 3) == 13472393175553348871
    assert Keyed(7, 0, 3).uniform(HERE) == 0.622320133765144
    law = [0.1, 0.2, 0.3, 0.4]
    draws = [Draw(t, 0, 0, Purpose.RESIDUAL) for t in range(16)]
    assert [Keyed(7).categorical(law, d) for d in draws] == [
        1,
        3,
        1,
        3,
        3,
        2,
        3,
        2,
        2,
        2,
        2,
        1,
        2,
        2,
        3,
        3,
    ]
    assert [Keyed(7).race(law, t) for t in range(16)] == [
        2,
        3,
        3,
        2,
        0,
        2,
        1,
        3,
        2,
        3,
        3,
        2,
        1,
        1,
        3,
        2,
    ]


def test_addresses_are_told_apart():
    keys = [
        Keyed(seed, choice, base).uniform(Draw(position, row, trial, purpose))
        for seed, choice, base, position, row, trial, purpose in product(
            (0, 1, 2**64 - 1), (0, 1), (0, 1), (0, 1, 2), (0, 1), (0, 1), Purpose
        )
    ]
    assert len(set(keys)) == len(keys)


def test_hash_continues_from_a_state():
    assert hash_key(1, 2, 3, 4) == hash_key(3, 4, state=hash_key(1, 2))
    assert hash_key(1, 2) != hash_key(2, 1)
    assert hash_key(0) != hash_key(0, 0)


@pytest.mark.parametrize("bits", [0, 1 << 12, 2**63, MASK - 2**12, MASK])
def test_uniform_is_the_midpoint_of_its_cell(bits):
    u = uniform(bits)
    assert 0 < u < 1
    assert u * 2**52 - 0.5 == bits >> 12


def test_uniforms_spread_evenly():
    us = np.sort([Keyed(seed).uniform(HERE) for seed in range(4_000)])
    distance = np.abs(us - (np.arange(4_000) + 0.5) / 4_000).max()
    # Kolmogorov-Smirnov at a false-alarm rate of 1e-4.
    assert distance < 2.23 / np.sqrt(4_000)


def test_arrays_equal_scalars():
    states = [0, 1, 12345, MASK]
    array = np.array(states, dtype=np.uint64)
    assert mix_array(array).tolist() == [mix(s) for s in states]
    golden = 0x9E3779B97F4A7C15
    assert streams(array, 3).tolist() == [
        [mix((s + i * golden) & MASK) for i in (1, 2, 3)] for s in states
    ]
    np.testing.assert_allclose(exponentials(array), [-np.log(uniform(s)) for s in states], rtol=0)


def test_bernoulli_compares_with_the_uniform():
    u = Keyed(7).uniform(HERE)
    assert not Keyed(7).bernoulli(u, HERE)
    assert Keyed(7).bernoulli(np.nextafter(u, 1), HERE)
    assert all(Keyed(s).bernoulli(1.0, HERE) for s in range(100))
    assert not any(Keyed(s).bernoulli(0.0, HERE) for s in range(100))


def test_categorical_never_draws_what_has_no_weight():
    law = [0.0, 0.5, 0.0, 0.5, 0.0]
    drawn = {Keyed(seed).categorical(law, HERE) for seed in range(200)}
    assert drawn == {1, 3}


@pytest.mark.parametrize(
    ("u", "token"), [(1e-16, 1), (0.49, 1), (0.5, 3), (0.51, 3), (1 - 2**-53, 3), (1.0, 3)]
)
def test_invert(u, token):
    assert invert(np.cumsum([0.0, 0.5, 0.0, 0.5, 0.0]), u) == token


def test_categorical_takes_weights_of_any_scale():
    for seed in range(50):
        small = Keyed(seed).categorical([1e-300, 3e-300], HERE)
        assert small == Keyed(seed).categorical([0.25, 0.75], HERE)
