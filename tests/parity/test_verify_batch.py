"""verify_batch in float64, many drafts at once, against verify_one in exact rationals, one by one.

Both are given the same keys, so they must return the same tokens. The laws hold zeros, ties,
one-hots and p = q; where float64 rounds, the exact side shows whether rounding mattered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from paceline.chooser import Keyed
from paceline.tree import NO_DRAFT, Draft, DraftBuilder, PointMass, Sampled
from paceline.verify import rules
from paceline.verify.laws import OneHot, residual

BATCHES, DRAFTS = 160, 128


def exact(laws):
    """laws[..., V] as fractions of the very same value."""
    return np.frompyfunc(Fraction, 1, 1)(laws)


def random_laws(rng, N, V):
    """laws[N, V]: half of them multiples of 1/8 with zeros and ties, half of them dense."""
    counts = rng.multinomial(8, rng.dirichlet(np.full(V, 0.5)), size=N) / 8
    dense = rng.dirichlet(np.ones(V), size=N)
    return np.where(rng.random((N, 1)) < 0.5, counts, dense)


@dataclass
class Example:
    """A draft and its target_probs[rows, V], in float64 and in fractions."""

    draft: Draft
    laws: np.ndarray
    exact_draft: Draft
    exact_laws: np.ndarray
    chooser: Keyed


def random_example(rng, p, q, trees):
    """A draft with a trial for each law of q[R, V], each third one a point mass; p[R + 1, V]."""
    builder, parent = DraftBuilder(), 0
    for law in q:
        kind = rng.random()
        if kind < 0.3:
            builder.point(parent, int(rng.integers(len(law))))
        else:
            law = p[parent] if kind < 0.5 else law  # noqa: PLW2901
            token = int(np.searchsorted(law.cumsum(), rng.random() * law.sum()))
            builder.sampled(parent, token, law)
        parent = int(rng.integers(len(builder) + 1)) if trees else len(builder)
    draft, laws = builder.build(), p[: len(builder) + 1]
    if draft.draft_probs is None:
        in_float = in_fractions = draft
    else:
        probs = np.array(draft.draft_probs)
        in_float = replace(draft, draft_probs=torch.from_numpy(probs))
        in_fractions = replace(draft, draft_probs=exact(probs))
    chooser = Keyed(*rng.integers(1 << 20, size=3).tolist())
    return Example(in_float, laws, in_fractions, exact(laws), chooser)


def random_examples(rng, count, V, trees):
    """Drafts of 0 to 5 trials."""
    p, q = random_laws(rng, 6 * count, V), random_laws(rng, 5 * count, V)
    sizes = rng.integers(6, size=count)
    return [
        random_example(rng, p[6 * i : 6 * i + 6], q[5 * i : 5 * i + size], trees)
        for i, size in enumerate(sizes)
    ]


def count_laws(examples):
    """How many laws the examples hold, of target and drafter."""
    probs = [e.draft.draft_probs for e in examples]
    return sum(len(e.laws) for e in examples) + sum(len(q) for q in probs if q is not None)


def disagreements(rule, examples):
    """Examples on which the fast path and the exact specification differ."""
    found = rule.verify_batch(
        [e.draft for e in examples],
        torch.from_numpy(np.concatenate([e.laws for e in examples])),
        [e.chooser for e in examples],
    )
    return [
        (rule.name, example)
        for example, verdict in zip(examples, found, strict=True)
        if rule.verify_one(example.exact_draft, example.exact_laws, example.chooser) != verdict
    ]


@pytest.mark.parametrize("trees", [False, True], ids=["chains", "trees"])
def test_batch_equals_exact_specification(trees):
    rng, laws_seen = np.random.default_rng(20 + trees), 0
    tried = [rules[name] for name in rules if rules[name].trees == trees]
    for batch in range(BATCHES):
        examples = random_examples(rng, DRAFTS, 2 + batch % 8, trees)
        for rule in tried:
            assert disagreements(rule, examples) == []
        laws_seen += count_laws(examples)
    assert len(tried) >= 2
    assert laws_seen >= 10**5


def test_wide_vocabulary():
    rng = np.random.default_rng(22)
    examples = random_examples(rng, 8, 5_000, trees=False)
    for name in rules:
        assert disagreements(rules[name], examples) == []


def test_disagreement_is_seen():
    rng = np.random.default_rng(23)
    examples = random_examples(rng, DRAFTS, 4, trees=False)
    for example in examples:
        example.exact_laws = example.exact_laws[:, ::-1]
    for name in rules:
        assert len(disagreements(rules[name], examples)) > DRAFTS // 4


def test_empty_residual_gives_p_back():
    p = np.array([0.3, 0.7])
    np.testing.assert_array_equal(residual(p, p), p)
    np.testing.assert_array_equal(residual(p, np.array([0.3, 0.70000001])), p)
    one_hot = np.array([0.0, 1.0])
    np.testing.assert_array_equal(residual(one_hot, OneHot(1)), one_hot)


@pytest.mark.parametrize("name", list(rules))
def test_rejection_that_rounding_made_possible(name):
    """q exceeds p by one unit in the last place: the residual is empty, the token is p's own."""
    p = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    draft = Draft.chain([Sampled(1, 0)], torch.tensor([[0.0, 1.0 + 2**-52]], dtype=torch.float64))
    verdicts = [
        verdict
        for seed in range(50)
        for verdict in rules[name].verify_batch([draft], p, [AlwaysReject(seed)])
    ]
    rejected, accepted = ((), 1), ((1,), 0)
    wanted = accepted if rules[name].reproducible else rejected
    assert {(v.path, v.token) for v in verdicts} == {wanted}


class AlwaysReject(Keyed):
    """No coin ever comes up."""

    def bernoulli(self, probability, draw):
        return False


@pytest.mark.parametrize("name", list(rules))
def test_no_draft_is_a_plain_step(name):
    law = torch.tensor([[0.25, 0.0, 0.75]], dtype=torch.float64)
    tokens = [rules[name].verify_batch([NO_DRAFT], law, [Keyed(s)])[0].token for s in range(200)]
    wanted = {2} if rules[name].one_hot else {0, 2}
    assert set(tokens) == wanted


@pytest.mark.parametrize("name", list(rules))
def test_tiny_and_certain_probabilities(name):
    """q(x) may be any positive number, and what p is sure of is always accepted."""
    p = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    q = torch.tensor([[1.0 - 1e-300, 1e-300]], dtype=torch.float64)
    draft = Draft.chain([Sampled(1, 0), PointMass(1)], q)
    paths = {rules[name].verify_batch([draft], p, [Keyed(s)])[0].path for s in range(100)}
    assert paths == {(1, 2)}
