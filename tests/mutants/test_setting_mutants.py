"""Settings applied in the wrong place: the proofs must see it.

Without a setting the same mutants pass: so what is caught is the place of the setting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from paceline.certify import Case, violation
from paceline.certify.settings import SETTINGS, row_laws, settled, toy_logits
from paceline.certify.suite import adversarial
from paceline.certify.toys import Kind, Stem, ToyDrafter, chain
from paceline.tree import Draft, DraftBuilder
from paceline.verify import rules
from paceline.verify.multi import Multi
from paceline.verify.token import Token

V = 3
PLAIN = SETTINGS["none"]
SHAPE = chain(Kind.DRAWN, Kind.BEST)
TREE = (Stem(Kind.DRAWN, chain(Kind.DRAWN)), Stem(Kind.BEST))


def caught(rule, params, *, rows=row_laws, drafter=ToyDrafter, shape=SHAPE, models=12):
    """The first violation over some models; passes get their laws from rows(logits, params)."""
    if rule.reproducible:
        shape = adversarial(shape)
    for seed in range(models):
        logits = toy_logits(seed, V)
        q = settled(row_laws(toy_logits(seed + 100, V), params))
        target = settled(row_laws(logits, params))
        case = Case(rule, target, drafter(q, shape), 3, rows=rows(logits, params))
        if found := violation(case):
            return found
    return None


def path_ignored(logits, params):
    """Every node of a pass has the law of its root: the drafted path is not seen."""
    honest = row_laws(logits, params)
    return lambda output, paths: [honest(output, ((),))[0]] * len(paths)


def next_node(logits, params):
    """After an accepted node the law of the row behind it."""
    honest = row_laws(logits, params)

    def laws(output, paths):
        root, *below = honest(output, paths)
        return [root, *below[1:], *below[:1]]

    return laws


def bonus_alone(logits, params):
    """What is checked against the draft goes without settings; the last row has them."""
    plain, honest = row_laws(logits, PLAIN), row_laws(logits, params)
    return lambda output, paths: [*plain(output, paths)[:-1], honest(output, paths)[-1]]


def all_but_bonus(logits, params):
    """The last row goes without settings."""
    plain, honest = row_laws(logits, PLAIN), row_laws(logits, params)
    return lambda output, paths: [*honest(output, paths)[:-1], plain(output, paths)[-1]]


def without_settings(logits, params):
    """Laws for a rule that applies the settings itself, later."""
    return row_laws(logits, PLAIN)


class AfterTheRatio:
    """Accepts by the bare laws and applies min-p to what is drawn in the end."""

    def verify_one(self, draft, target_probs, chooser):
        return super().verify_one(draft, target_probs, Truncating(chooser))


class Truncating:
    def __init__(self, chooser):
        self.base, self.bernoulli, self._chooser = chooser.base, chooser.bernoulli, chooser

    def categorical(self, weights, draw):
        least = weights.max() * SETTINGS["min-p"].min_p
        return self._chooser.categorical(np.where(weights >= least, weights, 0 * weights), draw)


@dataclass(frozen=True)
class LawBeforeSettings(ToyDrafter):
    """Draws under the settings and names the law that it had without them."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        laws = [law * law / (law * law).sum() for law in draft.draft_probs]
        return Draft(draft.tree, draft.trials, laws)


@dataclass(frozen=True)
class DropsForbidden(ToyDrafter):
    """Cuts a drawn token that the target's settings forbid, as if it were a point mass."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        token = draft.tree.tokens[0]
        return DraftBuilder().build() if token == 0 else draft


@pytest.mark.parametrize("setting", ["top-k", "top-p", "min-p"])
@pytest.mark.parametrize("mutant", [bonus_alone, all_but_bonus], ids=lambda f: f.__name__)
def test_settings_on_some_rows_alone(mutant, setting):
    for name in ("token", "block", "multi", "coupled"):
        assert caught(rules[name], SETTINGS[setting], rows=mutant)


@pytest.mark.parametrize("mutant", [bonus_alone, all_but_bonus], ids=lambda f: f.__name__)
def test_nothing_to_misplace(mutant):
    assert caught(rules["token"], PLAIN, rows=mutant, models=3) is None


@pytest.mark.parametrize("name", ["token", "block", "multi", "coupled"])
def test_laws_of_another_node(name):
    assert caught(rules[name], PLAIN, rows=path_ignored)


def test_bonus_of_another_node_of_a_tree():
    assert caught(rules["multi"], PLAIN, rows=next_node, shape=TREE)


@pytest.mark.parametrize("rule", [Token, Multi])
def test_min_p_after_the_ratio(rule):
    mutant = type("Mutant", (AfterTheRatio, rule), {})()
    assert caught(mutant, SETTINGS["min-p"], rows=without_settings)


@pytest.mark.parametrize("name", ["token", "block", "multi"])
@pytest.mark.parametrize("drafter", [LawBeforeSettings, DropsForbidden])
def test_drafters(name, drafter):
    shape = chain(Kind.DRAWN)
    assert caught(rules[name], SETTINGS["temperature"], drafter=drafter, shape=shape)
