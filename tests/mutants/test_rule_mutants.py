"""Rules with one step wrong: the proofs must see it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from paceline.verify import block, multi, rules, token
from paceline.verify.block import Block
from paceline.verify.coupled import Coupled
from paceline.verify.greedy import Greedy
from paceline.verify.laws import OneHot, as_law, draft_law, excess
from paceline.verify.multi import Multi
from paceline.verify.rule import Verdict
from paceline.verify.token import Token


def absolute(p, q, w=1):
    """|p - q| where max(0, p - q) belongs."""
    over, under = excess(p, q, w), w * p
    under = np.maximum(as_array(q, p) - under, 0)
    return (over + under) / (over + under).sum() if (over + under).any() else p


def as_array(q, p):
    if not isinstance(q, OneHot):
        return q
    return np.array([q[i] + 0 * x for i, x in enumerate(p)])


def none_at_all(p, q, w=1):
    """The rejected token is drawn from p itself."""
    return p


def not_normalised(p, q, w=1):
    """The next sibling's ratio is taken with what is left of p, not with its law."""
    over = excess(p, q, w)
    return over if over.any() else p


def forgets_ratio(p, q, w=1):
    """The block residual without the prefix's ratio: max(0, p - q) for max(0, w p - q)."""
    over = excess(p, q)
    return over / over.sum() if over.any() else p


@pytest.mark.parametrize("name", ["token", "block", "multi"])
@pytest.mark.parametrize("mutant", [absolute, none_at_all], ids=lambda f: f.__name__)
def test_wrong_residual(caught, monkeypatch, name, mutant):
    module = {"token": token, "block": block, "multi": multi}[name]
    monkeypatch.setattr(module, "residual", mutant)
    assert caught(rules[name])


def test_residual_not_normalised(caught, monkeypatch):
    monkeypatch.setattr(multi, "residual", not_normalised)
    assert caught(rules["multi"])


def test_block_residual_without_ratio(caught, monkeypatch):
    monkeypatch.setattr(block, "residual", forgets_ratio)
    assert caught(rules["block"])


@pytest.mark.parametrize(
    "coin",
    [lambda w, p, q: w, lambda w, p, q: w * excess(p, q, w).sum(), lambda w, p, q: 0],
    ids=["bare-ratio", "mass-alone", "never"],
)
def test_wrong_coin(caught, monkeypatch, coin):
    """A coin that never comes up loses tokens of the draft, and with them the law."""
    monkeypatch.setattr(block, "coin", coin)
    assert caught(rules["block"])


class BonusFromDraft:
    """After the last accepted token it draws from the drafter's law."""

    def verify_one(self, draft, target_probs, chooser):
        probs = list(target_probs)
        if len(draft):
            q = draft_law(draft, draft.trials[-2][0])
            probs[-1] = as_array(q, as_law(probs[-1]))
        return super().verify_one(draft, probs, chooser)


class BonusFromWrongRow:
    """After the last accepted token it draws from the row before."""

    def verify_one(self, draft, target_probs, chooser):
        probs = list(target_probs)
        probs[-1] = probs[-2] if len(draft) else probs[-1]
        return super().verify_one(draft, probs, chooser)


class RatioUpsideDown:
    """min(1, q/p)."""

    def verify_one(self, draft, target_probs, chooser):
        return super().verify_one(draft, target_probs, UpsideDown(chooser))


class UpsideDown:
    def __init__(self, chooser):
        self.base, self.categorical, self._chooser = chooser.base, chooser.categorical, chooser

    def bernoulli(self, probability, draw):
        return self._chooser.bernoulli(1 / Fraction(probability) if probability else 1, draw)


@pytest.mark.parametrize("rule", [Token, Block])
@pytest.mark.parametrize("mutation", [BonusFromDraft, BonusFromWrongRow, RatioUpsideDown])
def test_wrong_step(caught, rule, mutation):
    mutant = type("Mutant", (mutation, rule), {})()
    assert caught(mutant)


def test_multi_with_ratio_upside_down(caught):
    assert caught(type("Mutant", (RatioUpsideDown, Multi), {})())


class FirstCoinThatFails(Block):
    """Stops at the first coin that fails, where the last one that comes up counts."""

    def verify_one(self, draft, target_probs, chooser):
        return super().verify_one(draft, target_probs, FirstFailure(chooser, len(draft)))


class FirstFailure:
    """Says of a coin that it came up only if all shorter prefixes' did too."""

    def __init__(self, chooser, k):
        self.base, self.categorical, self._chooser, self._k = (
            chooser.base,
            chooser.categorical,
            chooser,
            k,
        )

    def bernoulli(self, probability, draw):
        shorter = [draw._replace(position=self.base + i, row=i) for i in range(1, draw.row)]
        return self._chooser.bernoulli(probability, draw) and all(
            self._chooser.bernoulli(probability, other) for other in shorter
        )


def test_first_coin_that_fails(caught):
    assert caught(FirstCoinThatFails())


class CoupledPerPass(Coupled):
    """Draws the target's token afresh in every pass: the law holds, the text does not."""

    def verify_one(self, draft, target_probs, chooser):
        return super().verify_one(draft, target_probs, NoRace(chooser))


class NoRace:
    def __init__(self, chooser):
        self.base, self._chooser = chooser.base, chooser

    def race(self, law, position, rank=0):
        return self._chooser.categorical(law, (position, 0, 0, "fresh"))


class CoupledKeepsTheDraft(Coupled):
    """Emits a drafted token that the target could have said."""

    def verify_one(self, draft, target_probs, chooser):
        likely = [t for t in draft.tree.children[0] if as_law(target_probs[0])[t] > 0]
        verdict = super().verify_one(draft, target_probs, chooser)
        return Verdict((), likely[0]) if likely and not verdict.path else verdict


class CoupledOneLate(Coupled):
    """Runs each race on the noise of the position before."""

    def verify_one(self, draft, target_probs, chooser):
        late = NoRace(chooser)
        late.race = lambda law, position: chooser.race(law, max(0, position - 1))
        return super().verify_one(draft, target_probs, late)


@pytest.mark.parametrize("mutant", [CoupledPerPass, CoupledKeepsTheDraft])
def test_coupled(caught, mutant):
    assert caught(mutant())


def test_coupled_on_used_noise(caught):
    assert "asked twice" in caught(CoupledOneLate())


class GreedyKeepsTheDraft(Greedy):
    """Takes what was drafted first."""

    def verify_one(self, draft, target_probs, chooser):
        if len(draft):
            return Verdict((), draft.tree.tokens[0])
        return super().verify_one(draft, target_probs, chooser)


def test_greedy(caught):
    assert caught(GreedyKeepsTheDraft())


def test_greedy_at_a_temperature_is_not_lossless(caught):
    sampling = type("Sampling", (Greedy,), {"one_hot": False})()
    assert caught(sampling)
