"""A sparse law behaves as the same law written out: entries, draws, races, residuals."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.chooser import Draw, Keyed, Purpose, SparseLaw
from paceline.verify.laws import OneHot, excess, residual

V = 9_600


def sparse(seed: int, support: int, size: int = V) -> SparseLaw:
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(size, support, replace=False))
    return SparseLaw(ids, rng.dirichlet(np.ones(support)), size)


def test_entries_are_those_of_the_law_written_out():
    law = sparse(1, 5, 12)
    dense = law.dense()
    assert [law[i] for i in range(12)] == dense.tolist() == list(law)
    assert np.count_nonzero(dense) == 5
    assert (len(law), law.argmax()) == (12, dense.argmax())
    tied = SparseLaw(np.array([3, 7]), np.array([0.5, 0.5]), 9)
    assert tied.argmax() == 3


@pytest.mark.parametrize("support", [1, 3, 500, 5_000])
def test_draws_and_races_are_those_of_the_law_written_out(support: int):
    for seed in range(20):
        law, chooser = sparse(seed, support), Keyed(seed, 1, 2)
        draw = Draw(seed, 0, 0, Purpose.DRAFT)
        assert chooser.categorical(law, draw) == chooser.categorical(law.dense(), draw)
        for rank in (0, 2, 600):
            assert chooser.race(law, seed, rank) == chooser.race(law.dense(), seed, rank)


@pytest.mark.parametrize("q_kind", ["sparse", "dense", "one-hot"])
@pytest.mark.parametrize("p_kind", ["sparse", "dense"])
def test_residuals_are_those_of_the_laws_written_out(p_kind: str, q_kind: str):
    p, q, w = sparse(1, 8, 12), sparse(2, 6, 12), 0.75
    law = p if p_kind == "sparse" else p.dense()
    taken = {"sparse": q, "dense": q.dense(), "one-hot": OneHot(int(p.ids[2]))}[q_kind]
    spread = np.eye(12)[p.ids[2]] if q_kind == "one-hot" else q.dense()
    wanted = np.maximum(0.75 * p.dense() - spread, 0)
    np.testing.assert_array_equal(list(excess(law, taken, w)), wanted)
    np.testing.assert_allclose(list(residual(law, taken, w)), wanted / wanted.sum(), rtol=1e-15)


def test_an_empty_residual_gives_p_back():
    p = sparse(3, 4, 10)
    assert residual(p, p) is p
