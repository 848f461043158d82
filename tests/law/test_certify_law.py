"""`certify --law`: an honest engine passes, a law that is off by what it states does not.

The false-alarm rate of a report is 1e-3; seeds are fixed, so runs do not differ. With 400 samples a
total variation of 0.14 in one token's law is found with a power of 0.9.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from paceline.certify import law
from paceline.certify.forced import TOKENS, joint_law
from paceline.certify.law import (
    ALPHA,
    FULL,
    PROMPT,
    Effort,
    check_law,
    in_whole_blocks,
    law_tests,
    sample,
)
from paceline.runtime import next_logits
from paceline.sampling import to_probs
from paceline.types import SamplingParams, Speculation

BRIEF = Effort(samples=400, seconds=math.inf)


def shifted(token, mass):
    """Moves `mass` from the likeliest id to the second of one token's law, in every context."""

    def distort(index, laws):
        if index == token:
            laws = laws.clone()
            first, second = laws.topk(2).indices.T
            rows = range(len(laws))
            laws[rows, first] -= mass
            laws[rows, second] += mass
        return laws

    return distort


@pytest.fixture(scope="module")
def prompt(mini):
    return in_whole_blocks(mini.encode(PROMPT), 16)


@pytest.fixture(scope="module")
def exact(mini, prompt):
    return joint_law(mini.model, prompt)


def test_the_prompt_ends_one_token_into_a_block():
    assert in_whole_blocks(list(range(40)), 16) == [0, *range(8, 40)]
    assert in_whole_blocks(list(range(17)), 16) == list(range(17))
    assert in_whole_blocks([1, 2, 3], 16) == [1, 2, 3]


def test_exact_law(mini, exact, prompt):
    """Each output's probability, by the chain rule over passes of their own."""
    assert len(exact.probs) == 4**TOKENS
    assert exact.probs.sum() == pytest.approx(1, abs=1e-12)
    params = SamplingParams(top_k=4)
    for at in (0, 100, 255):
        output, mass = exact.tokens[at].tolist(), 1.0
        for n, token in enumerate(output):
            (law,) = to_probs(next_logits(mini.model, [*prompt, *output[:n]])[None], [params])
            rank = (law > law[token]).sum()
            assert exact.ranks[at, n] == rank
            mass *= float(law[token])
        assert exact.probs[at] == mass


@pytest.mark.parametrize(
    ("drafter", "rule"),
    [
        ("model", None),
        ("model", "coupled"),
        ("ngram", "token"),
        ("suffix", "multi"),
    ],
)
def test_an_honest_engine_passes(mini, drafter, rule):
    report = check_law(
        mini, PROMPT, speculation=Speculation(drafter=drafter, rule=rule), effort=BRIEF
    )
    assert report.passed
    assert report.rule == (rule or "block")
    assert report.samples == 400
    assert 0 < report.accepted < report.proposed
    assert 0.13 < report.detectable_tv < 0.14


def test_a_law_that_is_off_fails(mini):
    report = check_law(mini, PROMPT, effort=BRIEF, distort=shifted(2, 0.25))
    assert report.impossible == 0
    assert not report.passed


@pytest.fixture(scope="module")
def outputs(mini, prompt):
    rule, at_once = Speculation(rule="block"), mini.config.scheduler.max_num_requests
    batches = [sample(mini, prompt, seed, at_once, rule) for seed in range(0, 400, at_once)]
    return [output.token_ids for batch in batches for output in batch]


@pytest.mark.parametrize("token", [1, 2, 3])
def test_each_token_is_tested(mini, outputs, prompt, token):
    off = joint_law(mini.model, prompt, shifted(token, 0.3))
    assert min(test.p_value for test in law_tests(off, off.count(outputs))) <= ALPHA / 4


def test_outputs_the_target_cannot_give_fail(mini, exact, outputs):
    def certain(index, laws):
        return laws if index else (laws == laws.max()).double()

    report = check_law(mini, PROMPT, effort=replace(BRIEF, samples=64), distort=certain)
    likeliest = exact.tokens[exact.ranks[:, 0] == 0][0, 0]
    assert report.impossible == sum(output[0] != likeliest for output in outputs[:64]) > 0
    assert not replace(report, tests=(replace(report.tests[0], p_value=1.0),)).passed


def test_a_full_run_finds_one_percent(mini, exact, prompt):
    """With as many draws from the law itself as a full run takes of the engine."""
    off = joint_law(mini.model, prompt, shifted(2, 0.01))
    draws = np.random.default_rng(2).multinomial(FULL.samples, exact.probs).astype(float)
    worst = min(test.p_value for test in law_tests(off, draws))
    honest = min(test.p_value for test in law_tests(exact, draws))
    assert worst <= ALPHA / 4 < honest


def test_samples_fit_the_time(mini, monkeypatch):
    monkeypatch.setattr(law, "LEAST", 100)
    seen = []
    report = check_law(
        mini,
        PROMPT,
        speculation=Speculation(k=0),
        effort=Effort(samples=8_000, seconds=0),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report.samples == 100
    assert seen[-1] == (100, 100)
    assert report.passed
    assert report.proposed == 0
