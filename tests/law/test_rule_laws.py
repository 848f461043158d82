"""The fast paths under keyed uniforms, against the laws that are proved of their specifications.

Unless it says otherwise a G-test has 9 cells, so 8 degrees of freedom, and a false-alarm rate of
1e-4. With 5,000 samples a total variation of 0.05 is found with a power above 0.95 (noncentrality
at least 4 n TV^2 = 50). Seeds are fixed, so runs do not differ.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch

from paceline.certify.exact import coupled_acceptance, target_law
from paceline.certify.toys import Kind, Stem, ToyDrafter, chain, mimic, toy
from paceline.chooser import Draw, Keyed, Purpose
from paceline.chooser.race import finish
from paceline.tree import Draft, Sampled
from paceline.verify import rules

SAMPLES = 5_000
CRITICAL = 31.83
"""The 1 - 1e-4 quantile of chi-square with 8 degrees of freedom."""

TREE = (Stem(Kind.DRAWN, chain(Kind.DRAWN)), Stem(Kind.DRAWN), Stem(Kind.DISTINCT))
SHAPES = {"chain": chain(*[Kind.DRAWN] * 3), "tree": TREE}


def g_statistic(counts, law):
    """2 sum O log(O / E) over outcomes that all have probability in law {outcome: probability}."""
    assert set(counts) <= set(law)
    n = sum(counts.values())
    return 2 * sum(o * math.log(o / (n * law[outcome])) for outcome, o in counts.items())


def in_floats(model):
    """The model's laws, mixed with the uniform one so that all are positive, in float64."""

    @cache
    def law(prefix):
        probs = model(prefix).astype(float)
        return 0.7 * probs + 0.3 / len(probs)

    return law


TARGET = in_floats(toy(0, 3))
Q = in_floats(mimic(toy(0, 3), toy(1, 3), 2))


def decode(rule, drafter, seeds, tokens):
    """The first tokens of each seed's text: as many passes as it takes, all seeds in one batch."""
    texts = dict.fromkeys(seeds, ())
    while open_seeds := [seed for seed in seeds if len(texts[seed]) < tokens]:
        choosers = [Keyed(seed, 0, len(texts[seed])) for seed in open_seeds]
        drafts = [drafter.propose(rule, texts[c.seed], c) for c in choosers]
        rows = [
            TARGET(texts[seed] + draft.tree.path_tokens(row))
            for seed, draft in zip(open_seeds, drafts, strict=True)
            for row in range(len(draft) + 1)
        ]
        verdicts = rule.verify_batch(drafts, torch.from_numpy(np.array(rows)), choosers)
        for seed, draft, verdict in zip(open_seeds, drafts, verdicts, strict=True):
            texts[seed] += verdict.tokens(draft)
    return {seed: text[:tokens] for seed, text in texts.items()}


SAMPLED_RULES = [
    (name, shape)
    for name in rules
    for shape in SHAPES
    if not rules[name].one_hot and (rules[name].trees or shape == "chain")
]


@pytest.mark.parametrize(("name", "shape"), SAMPLED_RULES)
def test_joint_law_of_two_tokens(name, shape):
    texts = decode(rules[name], ToyDrafter(Q, SHAPES[shape]), range(SAMPLES), 2)
    assert g_statistic(Counter(texts.values()), target_law(TARGET, 2)) < CRITICAL


@dataclass(frozen=True)
class ArgmaxAsSampled(ToyDrafter):
    """Says that its argmax was drawn from q."""

    def propose(self, rule, prefix, chooser):
        law = self.q(prefix)
        return Draft.chain([Sampled(int(law.argmax()), 0)], [law])


@pytest.mark.parametrize("name", ["token", "block", "multi", "traversal"])
def test_the_test_finds_a_mutant(name):
    texts = decode(rules[name], ArgmaxAsSampled(Q, ()), range(SAMPLES), 2)
    assert g_statistic(Counter(texts.values()), target_law(TARGET, 2)) > CRITICAL


def test_coupled_text_is_the_same_with_any_drafter():
    shapes = [(), chain(Kind.BEST), SHAPES["chain"], TREE]
    plain, *others = (
        decode(rules["coupled"], ToyDrafter(Q, shape), range(400), 4) for shape in shapes
    )
    assert others == [plain] * 3
    assert len(set(plain.values())) > 20


@pytest.mark.parametrize("V", [9, 70, 5_000])
def test_race_has_its_law(V):
    """Within one run of ids, over two, and where scouts go first; cells are ids modulo 9."""
    law = np.random.default_rng(V).dirichlet(np.full(V, 0.3))
    chooser = Keyed(11)
    counts = Counter(chooser.race(law, position) % 9 for position in range(SAMPLES))
    cells = {cell: law[cell::9].sum() for cell in range(9)}
    assert g_statistic(counts, cells) < CRITICAL


@pytest.mark.parametrize("rank", [1, 2])
def test_runner_up_has_its_law(rank):
    """Given the places before, the next has the law without them: sampling without replacement."""
    law = np.array([0.4, 0.3, 0.2, 0.1])
    chooser = Keyed(12)
    laws = np.broadcast_to(law, (SAMPLES, 4))
    keys = [chooser.race_key(t) for t in range(SAMPLES)]
    firsts = list(zip(*(finish(laws, keys, j) for j in range(rank + 1)), strict=True))
    wanted = {}
    for order in np.ndindex(*[4] * (rank + 1)):
        if len(set(order)) == len(order):
            left = 1.0
            wanted[order] = 1.0
            for v in order:
                wanted[order] *= law[v] / left
                left -= law[v]
    # 12 or 24 cells: 11 or 23 degrees of freedom.
    assert g_statistic(Counter(firsts), wanted) < {1: 37.37, 2: 57.07}[rank]


def test_shared_noise_agrees_as_often_as_computed():
    """20,000 trials held to 4 sigma: false alarm 6e-5; a rate 0.02 off is found with power 0.95."""
    p, q = (toy(seed, 4)(()) for seed in (21, 33))
    exact = coupled_acceptance(list(p), list(q))
    assert Fraction(1, 4) < exact < 1
    n, chooser = 20_000, Keyed(13)
    keys = [chooser.race_key(t) for t in range(n)]
    winners = [finish(np.broadcast_to(law.astype(float), (n, 4)), keys) for law in (p, q)]
    agreed = np.mean(np.equal(*winners))
    assert abs(agreed - exact) < 4 * math.sqrt(exact * (1 - exact) / n)


def test_categorical_has_its_law():
    law = np.random.default_rng(1).dirichlet(np.ones(9))
    counts = Counter(
        Keyed(seed).categorical(law, Draw(0, 0, 0, Purpose.RESIDUAL)) for seed in range(SAMPLES)
    )
    assert g_statistic(counts, dict(enumerate(law))) < CRITICAL
