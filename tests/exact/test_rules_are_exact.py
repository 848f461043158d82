"""Every rule keeps the target's law, to the last fraction, over several consecutive passes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from paceline.certify import Case, cases, prove, violation
from paceline.certify.exact import (
    coupled_acceptance,
    expected_accepted,
    output_law,
    target_law,
    text_violation,
)
from paceline.certify.proofs import prove_all
from paceline.certify.settings import SETTINGS
from paceline.certify.suite import (
    BRIEF_CHAINS,
    BRIEF_TREES,
    CHAINS,
    TREES,
    adversarial,
    shapes_for,
)
from paceline.certify.toys import Kind, ToyDrafter, chain, fractions, mimic, toy
from paceline.verify import rules

LAW_RULES = [name for name in rules if not rules[name].reproducible]
TEXT_RULES = [name for name in rules if rules[name].reproducible]


@pytest.mark.parametrize("name", LAW_RULES)
def test_law(name):
    proof = prove(rules[name], models=4)
    assert proof.violations == ()
    assert proof.cases == 4 * (len(CHAINS) + len(TREES) * rules[name].trees)


@pytest.mark.parametrize("name", TEXT_RULES)
def test_law_and_text_under_every_draft(name):
    proof = prove(rules[name], models=1)
    assert proof.violations == ()
    assert proof.cases == len({(V, adversarial(shape)) for V, shape in (*CHAINS, *TREES)})


@pytest.mark.parametrize("name", list(rules))
def test_every_setting(name):
    """What `paceline certify --exact --quick` runs."""
    report = prove_all([rules[name]], quick=True)
    assert report.proofs[0].violations == ()
    shapes = shapes_for(rules[name], BRIEF_CHAINS, BRIEF_TREES)
    assert report.cases == len(shapes) * (1 + len(SETTINGS))


@pytest.mark.parametrize("name", LAW_RULES)
def test_three_ids_and_three_drafted(name):
    target = toy(5, 3)
    drafter = ToyDrafter(mimic(target, toy(6, 3), 7), chain(*[Kind.DRAWN] * 3))
    assert violation(Case(rules[name], target, drafter, 3)) is None


def test_outputs_take_several_passes():
    """The cases are worth something: the drafts are rejected often and accepted often."""
    accepted = [expected_accepted(case) for case in cases(rules["block"], models=4)]
    assert min(accepted) < Fraction(1, 2)
    assert max(accepted) > 1


def test_toy_laws_are_of_every_kind():
    laws = [tuple(toy(seed, 3)((1,))) for seed in range(60)]
    assert any(max(law) == 1 for law in laws)
    assert any(0 in law and max(law) < 1 for law in laws)
    assert any(len(set(law)) == 1 for law in laws)
    assert any(0 not in law and len(set(law)) == 3 for law in laws)
    target = toy(1, 3)
    assert {mimic(target, toy(s, 3), s)((2,)) is target((2,)) for s in range(20)} == {True, False}


TOY_TARGET, TOY_DRAFT = fractions(1, 2), fractions(2, 1)


def toy_check(name, k=2):
    """The paper's example: binary ids, p = (1/3, 2/3), q = (2/3, 1/3)."""
    drafter = ToyDrafter(lambda _: TOY_DRAFT, chain(*[Kind.DRAWN] * k))
    return Case(rules[name], lambda _: TOY_TARGET, drafter, 2)


def test_toy_check_of_the_block_rule():
    assert expected_accepted(toy_check("token")) == Fraction(10, 9)
    assert expected_accepted(toy_check("multi")) == Fraction(10, 9)
    assert expected_accepted(toy_check("block")) == Fraction(11, 9)
    assert expected_accepted(toy_check("traversal")) == Fraction(11, 9)


@pytest.mark.parametrize("name", LAW_RULES)
def test_one_token_is_accepted_with_one_minus_tv(name):
    for seed in range(20):
        p, q = toy(seed, 3)(()), toy(seed + 50, 3)(())
        drafter = ToyDrafter(lambda _, q=q: q, chain(Kind.DRAWN))
        case = Case(rules[name], lambda _, p=p: p, drafter, 1)
        assert expected_accepted(case) == sum(map(min, p, q))


def test_block_accepts_no_less_than_token():
    gains = []
    for case in cases(rules["block"], seed=1, models=4):
        less = replace(case, rule=rules["token"])
        gains.append(expected_accepted(case) - expected_accepted(less))
    assert min(gains) == 0
    assert max(gains) > 0


def test_multi_on_a_chain_is_the_token_rule():
    for case in cases(rules["token"], seed=2):
        same = replace(case, rule=rules["multi"])
        assert expected_accepted(same) == expected_accepted(case)
        assert output_law(same) == output_law(case)


def test_traversal_on_a_chain_is_the_block_rule():
    for case in cases(rules["block"], seed=3):
        same = replace(case, rule=rules["traversal"])
        assert expected_accepted(same) == expected_accepted(case)
        assert output_law(same) == output_law(case)


def test_traversal_accepts_no_less_than_multi():
    gains = []
    for case in cases(rules["traversal"], seed=4, models=4):
        less = replace(case, rule=rules["multi"])
        gains.append(expected_accepted(case) - expected_accepted(less))
    assert min(gains) == 0
    assert max(gains) > 0


def test_coupled_acceptance_bound():
    tight = []
    for seed in range(200):
        p, q = toy(seed, 4)(()), toy(seed + 500, 4)(())
        tv = 1 - sum(map(min, p, q))
        bound = (1 - tv) / (1 + tv)
        assert bound <= coupled_acceptance(p, q) <= 1 - tv
        tight.append(coupled_acceptance(p, q) == bound)
    assert any(tight)
    assert not all(tight)


def test_coupled_text_does_not_depend_on_the_draft():
    target = toy(9, 3)
    shape = adversarial(chain(Kind.DRAWN, Kind.DRAWN))
    case = Case(rules["coupled"], target, ToyDrafter(toy(8, 3), shape), 2)
    assert text_violation(case) is None


def test_greedy_takes_the_lowest_of_equals():
    target = toy(0, 3)
    tied = Case(rules["greedy"], lambda _: fractions(1, 2, 2), ToyDrafter(target, ()), 2)
    assert output_law(tied) == {(1, 1): 1}


def test_target_law_sums_to_one():
    for seed in range(10):
        law = target_law(toy(seed, 3), 3)
        assert sum(law.values()) == 1
        assert all(p > 0 for p in law.values())
        for shorter, longer in pairwise(target_law(toy(seed, 3), n) for n in range(1, 4)):
            for output, p in shorter.items():
                assert p == sum(r for other, r in longer.items() if other[:-1] == output)
