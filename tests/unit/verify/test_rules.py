"""The registry of rules, its defaults, what each rule refuses, and how it draws for a drafter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from paceline.chooser import Draw, Keyed, Purpose
from paceline.errors import ConfigError, UnknownNameError
from paceline.tree import Draft, DraftBuilder, PointMass, Sampled
from paceline.types import SamplingParams
from paceline.verify import Verdict, choose_rule, default_rule, rules

COLD, WARM = SamplingParams(temperature=0), SamplingParams(temperature=0.8)
SEEDED = SamplingParams(temperature=0.8, seed=1)
COLD_SEEDED = SamplingParams(temperature=0, seed=1)


def test_registry():
    assert list(rules) == ["block", "coupled", "greedy", "multi", "token", "traversal"]
    assert all(rules[name].name == name for name in rules)


@pytest.mark.parametrize(
    ("params", "trees", "name"),
    [
        (COLD, False, "greedy"),
        (COLD, True, "greedy"),
        (COLD_SEEDED, True, "greedy"),
        (SEEDED, False, "coupled"),
        (SEEDED, True, "coupled"),
        (WARM, False, "block"),
        (WARM, True, "traversal"),
    ],
)
def test_defaults(params, trees, name):
    assert default_rule(params, trees) == name
    assert choose_rule(None, params, trees=trees) is rules[name]


def test_what_cannot_be_exact_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'block'"):
        choose_rule("blok", WARM, trees=False)
    with pytest.raises(ConfigError, match=r"'greedy' is exact at temperature 0 only.*'block'"):
        choose_rule("greedy", WARM, trees=False)
    with pytest.raises(ConfigError, match=r"'token' verifies chains.*'traversal'"):
        choose_rule("token", WARM, trees=True)
    assert choose_rule("token", COLD, trees=False) is rules["token"]


def tree():
    builder = DraftBuilder()
    builder.point(0, 0)
    builder.point(0, 1)
    return builder.build()


@pytest.mark.parametrize("name", list(rules))
def test_trees(name):
    rule, probs = rules[name], torch.full((3, 2), 0.5, dtype=torch.float64)
    if rule.trees:
        verdict = rule.verify_batch([tree()], probs, [Keyed(0)])[0]
        assert verdict.path in {(1,), (2,)}
    else:
        with pytest.raises(ConfigError, match=f"'{name}' verifies chains only"):
            rule.verify_batch([tree()], probs, [Keyed(0)])


def test_verdict_tells_its_tokens():
    draft = Draft.chain([PointMass(4), PointMass(7)])
    assert Verdict((1, 2), 9).tokens(draft) == (4, 7, 9)
    assert Verdict((), 9).tokens(draft) == (9,)


LAW = np.array([0.2, 0.5, 0.0, 0.3])


def draws(name, trial):
    return [
        rules[name].draw(Keyed(seed), LAW, Draw(2, 0, trial, Purpose.DRAFT)) for seed in range(60)
    ]


def test_how_each_rule_draws():
    assert set(draws("greedy", 0)) == {1}
    for name in ("token", "block", "multi", "traversal"):
        assert rules[name].sampled
        assert set(draws(name, 0)) == {0, 1, 3}
        assert draws(name, 0) != draws(name, 1)
    places = [draws("coupled", trial) for trial in range(4)]
    assert not rules["coupled"].sampled
    assert all({*order[:3]} == {0, 1, 3} for order in zip(*places, strict=True))
    assert places[3] == places[2]
    assert places[0] == [Keyed(seed).race(LAW, 2) for seed in range(60)]


def test_batch_verifies_each_draft_on_its_own_rows():
    """Rows of one-hot laws: what comes out tells which row was read."""
    eye = torch.eye(6, dtype=torch.float64)
    drafts = [Draft.chain([PointMass(0), PointMass(5)]), Draft(), Draft.chain([PointMass(3)])]
    target_probs = eye[[0, 1, 2, 3, 4, 5]]
    wanted = [Verdict((1,), 1), Verdict((), 3), Verdict((), 4)]
    for name in rules:
        assert (
            rules[name].verify_batch(drafts, target_probs, [Keyed(s) for s in range(3)]) == wanted
        )


def test_rules_leave_laws_as_they_were():
    p = torch.tensor([[0.5, 0.5, 0.0]] * 3, dtype=torch.float64)
    q = torch.tensor([[0.25, 0.25, 0.5]] * 2, dtype=torch.float64)
    draft = Draft.chain([Sampled(2, 0), PointMass(1)], q)
    before = p.clone(), q.clone()
    for name in rules:
        rules[name].verify_batch([draft], p, [Keyed(1)])
        assert torch.equal(p, before[0])
        assert torch.equal(q, before[1])
