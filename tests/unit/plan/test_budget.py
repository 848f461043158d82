"""Spending rows over a batch: against all other ways to spend them."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from paceline.plan.budget import Prefill, Wish, rates_alone, spend
from paceline.plan.costs import FREE, CostCurve, DraftCosts

STEPPED = CostCurve((1, 5, 6), (10, 10, 20))


def test_worked_example():
    wishes = [Wish.chain((alpha,), "d") for alpha in (0.9, 0.1, 0.1, 0.1)]
    found = spend(wishes, STEPPED, {"d": FREE})
    assert found.lengths == (1, 0, 0, 0)
    assert (found.tokens, found.ms) == (pytest.approx(4.9), 10)


def test_tokens_count_as_their_requests_weigh():
    """Of .9 and .5, the second if it counts twice; what is expected is as it was."""
    wishes = [Wish.chain((alpha,), "d") for alpha in (0.9, 0.5)]
    costs = CostCurve((1, 3, 4), (10, 10, 30))
    assert spend(wishes, costs, {"d": FREE}).lengths == (1, 0)
    found = spend(wishes, costs, {"d": FREE}, weights=(0.7, 1.4))
    assert found.lengths == (0, 1)
    assert (found.tokens, found.gains) == (pytest.approx(2.5), (0.0, pytest.approx(0.5)))


def test_gains_multiply():
    assert Wish.chain((0.8, 0.5)).gains == pytest.approx((0.8, 0.4))


def all_ways(wishes, costs, drafts, max_rows=99):
    """Tokens per millisecond of every vector of lengths, priced from scratch."""
    for lengths in itertools.product(*(range(len(w.gains) + 1) for w in wishes)):
        rows = len(wishes) + sum(lengths)
        if rows > max_rows:
            continue
        tokens = len(wishes) + sum(sum(w.gains[:k]) for w, k in zip(wishes, lengths, strict=True))
        by_drafter = {}
        for wish, k in zip(wishes, lengths, strict=True):
            by_drafter.setdefault(wish.drafter, []).append(k)
        draft_ms = sum(drafts[name].ms(ks) for name, ks in by_drafter.items())
        yield tokens / (costs.ms(rows) + draft_ms), lengths


@pytest.mark.parametrize("seed", range(30))
def test_with_free_drafts_nothing_is_better_whatever_the_steps(seed):
    rng = random.Random(seed)
    values = sorted(rng.uniform(5, 40) for _ in range(5))
    costs = CostCurve((1, 3, 5, 8, 12), tuple(values))
    wishes = [Wish.chain([rng.random() for _ in range(3)], "d") for _ in range(3)]
    found = spend(wishes, costs, {"d": FREE})
    best, _ = max(all_ways(wishes, costs, {"d": FREE}))
    assert found.tokens_per_ms == pytest.approx(best)


@pytest.mark.parametrize("seed", range(20))
def test_with_draft_passes_it_is_priced_right_and_close_to_the_best(seed):
    """A depth is paid for by the first that reaches it, which no ordering can foresee; the prefix
    is at most 5 % short of the best of all vectors.
    """
    rng = random.Random(seed)
    costs = CostCurve((1, 4, 8, 16), (20, 22, 30, 55))
    drafts = {"d": DraftCosts(0.2, 0.05, CostCurve((1, 8), (rng.uniform(0.5, 6), 8)))}
    wishes = [Wish.chain([rng.uniform(0.3, 0.95) for _ in range(3)], "d") for _ in range(3)]
    found = spend(wishes, costs, drafts)
    rates = {lengths: rate for rate, lengths in all_ways(wishes, costs, drafts)}
    assert rates[found.lengths] == pytest.approx(found.tokens_per_ms)
    assert found.tokens_per_ms >= 0.95 * max(rates.values())


def test_a_dear_first_row_is_looked_beyond():
    """The sixth row costs 5 ms, the seventh to tenth nothing: stopping at the first loss would
    draft nothing.
    """
    costs = CostCurve((1, 2, 6), (10, 18, 18))
    found = spend([Wish.chain((0.7,) * 5, "d")], costs, {"d": FREE})
    assert found.lengths == (5,)


def test_what_is_seldom_proposed_is_seldom_paid_for():
    """A cascade: 3 tokens of a model, or else, once in 50, 8 of a lookup."""
    offers = (1.0, 1.0, 1.0, *(0.02,) * 5)
    wish = Wish(tuple(0.95 * offer for offer in offers), offers, "d")
    model = DraftCosts(passes=CostCurve((1,), (8,)))
    (length,), _, tokens, ms = vars(spend([wish], STEPPED, {"d": model})).values()
    assert length == 8
    assert tokens == pytest.approx(1 + 0.95 * 3.1)
    assert ms == pytest.approx(STEPPED.ms(4.1) + 8 * 3.1)
    (rate,) = rates_alone([wish], STEPPED, model, np.zeros(1))
    assert rate == pytest.approx(tokens / ms)
    model = replace(model, most_passes=3)  # as a cascade says of it
    assert spend([wish], STEPPED, {"d": model}).ms == pytest.approx(STEPPED.ms(4.1) + 8 * 3)
    (rate,) = rates_alone([wish], STEPPED, model, np.zeros(1))
    assert rate == pytest.approx(tokens / (STEPPED.ms(4.1) + 8 * 3))
    assert model.ms([8, 2]) == model.equal_ms(8, 2) == 24


def test_pinned_lengths_are_kept_and_paid_for():
    wishes = [Wish.chain((0.1,) * 4, "d", fixed=3), Wish.chain((0.95,) * 4, "d")]
    found = spend(wishes, STEPPED, {"d": FREE})
    assert found.lengths == (3, 0)
    assert found.tokens == pytest.approx(2 + 0.1 + 0.01 + 0.001)


def test_rows_of_a_pass_are_limited():
    wishes = [Wish.chain((0.9,) * 8, "d")] * 2
    assert sum(spend(wishes, CostCurve((1,), (10,)), {"d": FREE}, max_rows=7).lengths) == 5


def test_beside_prompts_rows_must_earn_what_later_passes_would():
    """100 rows of prompts at 1 ms each: a likely token would improve the pass's own rate, but 1 ms
    buys 2 tokens in the passes to come.
    """
    costs = CostCurve((1, 200), (1, 200))
    wishes = [Wish.chain((0.9,), "d")]
    assert spend(wishes, costs, {"d": FREE}, prefill=Prefill(100, 2.0)).lengths == (0,)
    assert spend(wishes, costs, {"d": FREE}, prefill=Prefill(100, 0.5)).lengths == (1,)
