"""The laws that are proved are those of the sampling code, for each node with its own prefix."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from paceline.certify.proofs import ANY_LAW, all_cases, prove_all
from paceline.certify.settings import (
    SETTINGS,
    exactly,
    history_of,
    row_laws,
    settings_for,
    settled,
    toy_logits,
)
from paceline.certify.suite import CHAINS, TREES, adversarial
from paceline.certify.toys import Kind
from paceline.sampling import Prefix, to_probs
from paceline.tree import DraftBuilder
from paceline.verify import rules


def law_after(output, logits, params):
    """laws[1, 3] by the pipeline, of a history that holds all of the prefix."""
    prefix = Prefix(history_of(output, params, 3))
    return to_probs(logits(output)[None], [params], [prefix])


@pytest.mark.parametrize("name", SETTINGS)
def test_each_row_has_the_law_of_its_own_prefix(name):
    logits = toy_logits(3, 3)
    laws = row_laws(logits, SETTINGS[name])((1,), ((), (2,), (2, 0)))
    for law, prefix in zip(laws, [(1,), (1, 2), (1, 2, 0)], strict=True):
        (wanted,) = law_after(prefix, logits, SETTINGS[name])
        assert sum(law) == 1
        assert law.astype(float).tolist() == pytest.approx(wanted.tolist(), abs=1e-15)
        assert settled(row_laws(logits, SETTINGS[name]))(prefix).tolist() == law.tolist()


def test_floats_are_taken_at_their_word():
    law = exactly(torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64))
    total = Fraction(0.1) + Fraction(0.2) + Fraction(0.7)
    assert law.tolist() == [Fraction(x) / total for x in (0.1, 0.2, 0.7)]


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "none"])
def test_each_setting_changes_some_law(name):
    changed = 0
    for seed in range(40):
        output, logits = (seed % 2,), toy_logits(seed, 3)
        plain, other = (
            law_after(output, logits, params) for params in (SETTINGS["none"], SETTINGS[name])
        )
        changed += not torch.equal(plain, other)
    assert changed > 10


def test_one_hot_rules_see_every_setting_at_temperature_0():
    assert set(settings_for(one_hot=True)) == set(SETTINGS)
    assert {p.temperature for p in settings_for(one_hot=True).values()} == {0}


@pytest.mark.parametrize("name", list(rules))
@pytest.mark.parametrize("quick", [True, False])
def test_every_kind_of_trial_meets_every_setting(name, quick):
    rule = rules[name]
    shapes = (*CHAINS, *(TREES if rule.trees else ()))
    found = {}
    for setting, case in all_cases(rule, 3, quick=quick):
        found.setdefault(setting, set()).update(kinds(case.drafter.shape))
    wanted = {Kind.ANY} if rule.reproducible else set().union(*(kinds(s) for _, s in shapes))
    assert found == dict.fromkeys([ANY_LAW, *SETTINGS], wanted)
    assert adversarial(shapes[0][1])[0].kind is Kind.ANY


def kinds(shape):
    return {stem.kind for stem in shape} | {k for stem in shape for k in kinds(stem.below)}


def test_cases_ask_for_the_laws_of_all_rows_at_once():
    case = next(c for s, c in all_cases(rules["multi"], 3, quick=True) if s == "top-k")
    builder = DraftBuilder()
    child = builder.point(0, 1)
    builder.point(child, 0)
    builder.point(0, 2)
    laws = case.laws((2,), builder.build())
    wanted = [case.target(p) for p in [(2,), (2, 1), (2, 1, 0), (2, 2)]]
    assert [law.tolist() for law in laws] == [law.tolist() for law in wanted]


def test_report_counts_and_tells():
    seen = []
    report = prove_all(
        [rules["token"]], quick=True, progress=lambda done, total: seen.append((done, total))
    )
    (proof,) = report.proofs
    assert report.passed
    assert proof.cases == report.cases == 2 * (1 + len(SETTINGS)) == len(seen)
    assert seen[-1] == (report.cases, report.cases)
    assert proof.kinds == ("drawn", "best", "any")
    assert proof.settings == (ANY_LAW, *SETTINGS)
