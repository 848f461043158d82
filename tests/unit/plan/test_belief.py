"""Beliefs about acceptance: counts that fade, shrinkage, and changes of the text."""

from __future__ import annotations

import random

import pytest

from paceline.plan.belief import (
    LEAST_TRUST,
    TRUSTED,
    Belief,
    Evidence,
    Expected,
    Prior,
    Trust,
    likelihoods,
    wish_of,
)
from paceline.plan.traces import Rates


def believed(alphas, passes, seed=0, k=4, belief=None, pool=None):
    rng, belief = random.Random(seed), belief or Belief(Evidence(40))
    for _ in range(passes):
        accepted = Rates(alphas).accepted(0, k, rng)
        belief.learn(belief.expect(k, pool), (k, k, accepted))
    return belief


def test_nothing_seen():
    expected = Belief(Evidence(40)).expect(2)
    assert [tuple(one) for one in expected] == [
        pytest.approx((1.2, 0.8, 0.9)),
        pytest.approx((1.8, 1.2, 0.9)),
    ]
    assert expected[0].alpha.mean == pytest.approx(0.6)


def test_what_has_no_chance_is_left_out():
    assert len(Belief(Evidence(40), Prior(alpha=0.09)).expect(16)) == 1
    rare = Belief(Evidence(40), Prior(alpha=0.9, offers=0.002)).expect(4)
    assert len(rare) == 4  # it costs its rows as rarely
    assert Belief(Evidence(40), Prior(alpha=0.9, offers=0.0005)).expect(4) == []


def test_a_request_leans_on_a_pool_by_how_many_requests_it_has_seen():
    """And on each of its positions by how often a pass reaches it."""
    pool = [Expected(90, 10, 1.0)] * 3
    belief = Belief(Evidence(1e9, [10, 5, 0], [5, 5, 0], [10, 10, 10], [10, 10, 10]))
    few, many = Belief(Evidence(200), requests=1), Belief(Evidence(200), requests=36)
    assert (few.lean, many.lean) == (pytest.approx(1.6), pytest.approx(7.2))
    first, second, third = belief.expect(3, pool, few.lean)
    assert (first.a, first.b) == pytest.approx((5 + 0.9 * 1.6, 5 + 0.1 * 1.6))
    reach = first.a / (first.a + first.b)
    assert (second.a, second.b) == pytest.approx((5 + 0.9 * 1.6 * reach, 0.1 * 1.6 * reach))
    assert third.a + third.b == pytest.approx(1.6 * reach * second.a / (second.a + second.b))


def test_evidence_fades_by_position():
    evidence = Evidence(10)
    evidence.add(3, 2, 1)
    evidence.add(1, 1, 1)
    assert evidence.asked == [1.9, 1, 1]
    assert evidence.offered == [1.9, 1, 0]
    assert evidence.reached == [1.9, 1, 0]
    assert evidence.survived == [1.9, 0, 0]
    evidence.fade(0.5)
    assert evidence.reached == [0.5, 0.5, 0]
    evidence.scale(0.5)
    assert evidence.survived == pytest.approx([0.25, 0, 0])


def test_memory_bounds_the_weight():
    assert believed((0.5,), 500).evidence.reached[0] < 40


def test_rates_are_found_again():
    """Of 30 texts, each judged after 60 passes: the mean belief is within .05 of the truth."""
    runs = [believed((0.6, 0.9), 60, seed).expect(2) for seed in range(30)]
    for position, alpha in enumerate((0.6, 0.9)):
        mean = sum(run[position].alpha.mean for run in runs) / len(runs)
        assert mean == pytest.approx(alpha, abs=0.05)


def test_a_new_request_is_believed_to_be_like_the_others():
    pool = believed((0.9,), 100).expect(4)
    fresh = Belief(Evidence(40)).expect(4, pool)
    assert fresh[0].alpha.mean == pytest.approx(pool[0].alpha.mean)
    doubted = believed((0.0,), 4, belief=Belief(Evidence(40)), pool=pool).expect(1, pool)
    assert 0.4 < doubted[0].alpha.mean < 0.7


def test_offers():
    belief = Belief(Evidence(40))
    for _ in range(30):
        belief.learn(belief.expect(4), (4, 1, 1))
    first, second = belief.expect(2)
    assert first.offer > 0.9
    assert second.offer < 0.2
    wish = wish_of("d", [first, second], 1)
    assert wish.rows == (first.offer, second.offer)
    assert wish.gains[1] == pytest.approx(second.offer * first.alpha.mean * second.alpha.mean)
    assert wish.fixed == 1


def test_likelihoods_worked():
    up, down = likelihoods(0.8, accepted=False)
    assert (up, down) == pytest.approx((-1.224, 0.916), abs=1e-3)
    for alpha in (0.1, 0.5, 0.9):
        weights = ((True, alpha), (False, 1 - alpha))
        drift = [sum(w * likelihoods(alpha, hit)[side] for hit, w in weights) for side in (0, 1)]
        assert max(drift) < 0


def test_steady_text_seldom_looks_changed():
    """100 texts of 60 passes at .2 to .95: 11 are expected to look changed, one in 545 passes."""
    changed = sum(
        believed((alpha,), 60, seed).changed
        for seed in range(25)
        for alpha in (0.2, 0.5, 0.8, 0.95)
    )
    assert changed <= 20


@pytest.mark.parametrize(("old", "new"), [(0.95, 0.3), (0.9, 0.0), (0.1, 0.8)])
def test_a_change_is_believed_within_20_passes(old, new):
    pool = believed((old,), 200).expect(4)
    gaps = []
    for seed in range(10):
        belief = believed((old,), 100, seed, pool=pool)
        believed((new,), 20, seed + 100, belief=belief, pool=pool)
        gaps.append(abs(belief.expect(4, pool)[0].alpha.mean - new))
    assert sum(gaps) / len(gaps) < 0.2


def test_what_failed_for_long_gets_no_first_credit_again():
    """For a new request that leans on a hopeless pool, and for a pool that is tried once more."""
    pool = believed((0.0,), 600, belief=Belief(Evidence(200)))
    assert pool.expect(4) == []
    assert Belief(Evidence(40)).expect(4, pool.expect(4)) == []
    pool.fade(6)
    assert all(one.alpha.mean < 0.02 for one in pool.expect(1))
    for _ in range(6):
        pool.learn(pool.expect(1), (1, 1, 1))
    assert pool.expect(1)[0].alpha.mean > 0.4


def test_a_rejection_deep_in_what_never_failed_is_learnt_from():
    belief = Belief(Evidence(200))
    for _ in range(300):
        belief.learn(belief.expect(16), (16, 16, 16))
    belief.learn(belief.expect(16), (16, 16, 15))
    assert 0.9 < belief.expect(16)[15].alpha.mean < 1


def test_promises_count_as_they_were_kept():
    trust = Trust()
    assert trust.factor == 1.0
    trust.add(8.0, 4)
    assert trust.factor == pytest.approx((TRUSTED * 0.998 + 4) / (TRUSTED * 0.998 + 8))
    expected = [Expected(8, 2, 1.0), Expected(1, 1, 0.5)]
    assert wish_of("d", expected, trust=0.9).gains == pytest.approx((0.72, 0.18))
    for _ in range(200):
        trust.add(1.0, 0)
    assert trust.factor == LEAST_TRUST
    for _ in range(2000):
        trust.add(0.5, 1)
    assert trust.factor == 1.0


def test_the_best_of_equals_promise_no_more_than_they_keep():
    """Of 8 requests, 2 draft: those believed likeliest. All keep four tokens in ten."""
    rng, trust = random.Random(3), Trust()
    beliefs = [Belief(Evidence(40)) for _ in range(8)]
    promised, kept = 0.0, 0
    for turn in range(4000):
        expectations = [belief.expect(1) for belief in beliefs]
        best = sorted(range(8), key=lambda i: -expectations[i][0].alpha.mean)[:2]
        for i in best:
            accepted = int(rng.random() < 0.4)
            gain = sum(wish_of("d", expectations[i]).gains)
            if turn >= 2000:
                promised, kept = promised + trust.factor * gain, kept + accepted
            trust.add(gain, accepted)
            beliefs[i].learn(expectations[i], (1, 1, accepted))
        for belief in beliefs:
            belief.evidence.scale(0.98)
    assert trust.factor < 0.97
    assert promised == pytest.approx(kept, rel=0.05)
