"""`certify --endpoint`: honest servers pass, biased ones do not.

The false-alarm rate of a report is 1e-3; the stubs' seeds are fixed, so runs do not differ. With
2,000 samples a total variation of 0.062 in one token's law is found with a power of 0.9.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from paceline.certify import gtest
from paceline.certify.audit import audit, compare
from paceline.certify.endpoint import LAW, connect
from paceline.certify.forced import joint_law
from paceline.certify.gtest import two_sample_g_test
from paceline.certify.law import PROMPT, Effort
from tests.live_server import live
from tests.stub_endpoint import Sampler, serving

ENOUGH = Effort(samples=2_000, seconds=math.inf)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(gtest, "DRAWS", 4_999)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def biased(index, laws):
    """A mass of 0.2 moved from the likeliest id to the second of the third token's law."""
    if index == 2:
        laws = laws.clone()
        first, second = laws.topk(2).indices.T
        rows = range(len(laws))
        laws[rows, first] -= 0.2
        laws[rows, second] += 0.2
    return laws


@pytest.fixture(scope="module")
def ids(mini):
    return mini.encode(PROMPT)


@pytest.fixture(scope="module")
def honest_law(mini, ids):
    return joint_law(mini.model, ids)


@pytest.fixture(scope="module")
def biased_law(mini, ids):
    return joint_law(mini.model, ids, biased)


def test_an_honest_server_passes(mini, ids, honest_law):
    sampler, seen = Sampler(honest_law, mini.tokenizer), []
    with serving(sampler) as url:
        report = audit(
            connect(url), mini.model, ids, ENOUGH, lambda done, total: seen.append((done, total))
        )
    assert report.passed
    assert (report.samples, report.impossible, report.served_model) == (2_000, 0, "stub")
    assert report.detectable_tv < 0.062
    assert seen[-1] == (2_000, 2_000)
    assert all(
        body == {"model": "stub", "prompt": ids, **LAW, "n": body["n"]} for body in sampler.asked
    )


def test_a_biased_server_fails(mini, ids, biased_law):
    with serving(Sampler(biased_law, mini.tokenizer)) as url:
        report = audit(connect(url), mini.model, ids, ENOUGH)
    assert report.impossible == 0
    assert not report.passed


def test_texts_the_model_cannot_give_fail(mini, ids):
    """A server that does not know top_k, or serves another model."""
    with serving(lambda path, headers, body: (200, {"choices": [{"text": "zebra"}]})) as url:
        report = audit(connect(url, "m"), mini.model, ids, Effort(samples=10, seconds=math.inf))
    assert (report.impossible, report.example) == (10, "zebra")
    assert not report.passed


def test_the_largest_n_that_is_taken_is_asked_for(mini, ids, honest_law):
    sampler = Sampler(honest_law, mini.tokenizer, most=17)
    with serving(sampler) as url:
        report = audit(connect(url), mini.model, ids, Effort(samples=40, seconds=math.inf))
    counts = [body["n"] for body in sampler.asked]
    assert counts == [64, 32, 16, 16, 16, 16, 8]
    assert report.samples == 40


def test_two_honest_servers_agree(mini, honest_law):
    with (
        serving(Sampler(honest_law, mini.tokenizer, seed=1)) as a,
        serving(Sampler(honest_law, mini.tokenizer, seed=2)) as b,
    ):
        report = compare((connect(a), connect(b)), PROMPT, ENOUGH)
    assert report.passed
    assert report.samples == (2_000, 2_000)
    assert report.texts > 30


def test_an_honest_and_a_biased_server_differ(mini, honest_law, biased_law):
    with (
        serving(Sampler(honest_law, mini.tokenizer, seed=1)) as a,
        serving(Sampler(biased_law, mini.tokenizer, seed=2)) as b,
    ):
        report = compare((connect(a), connect(b)), PROMPT, ENOUGH)
    assert not report.passed


@pytest.mark.parametrize("drafter", ["model", "none"])
def test_our_own_server_passes(build, ids, monkeypatch, drafter):
    """It gives 16 samples at a time; what it draws without a seed is made to repeat."""
    llm = build("model:mini-draft", max_num_requests=16) if drafter == "model" else build("none")
    monkeypatch.setattr("secrets.randbits", Random(1).getrandbits)
    with live(llm) as server:
        report = audit(connect(server.url), llm.model, ids, Effort(samples=320, seconds=math.inf))
    assert report.served_model == "mini"
    assert report.passed


def test_homogeneity_by_hand():
    """Samples that share nothing are the farthest there are, equal ones the nearest."""
    two = two_sample_g_test("", np.array([200.0, 0]), np.array([0, 200.0]))
    assert (two.cells, two.p_value) == (2, 1 / 5_000)
    assert two.statistic == pytest.approx(2 * 400 * np.log(2))
    assert two_sample_g_test("", np.array([9.0, 9.0]), np.array([9.0, 9.0])).p_value == 1


def test_homogeneity_has_the_stated_rate(monkeypatch):
    """300 pairs of one law, of unequal size, at the 10 % level: 4 sigma are 0.07."""
    monkeypatch.setattr(gtest, "DRAWS", 499)
    random, law = np.random.default_rng(3), np.array([0.5, 0.2, 0.15, 0.1, 0.04, 0.01])
    pairs = [(random.multinomial(60, law), random.multinomial(200, law)) for _ in range(300)]
    found = [two_sample_g_test("", a.astype(float), b.astype(float)).p_value for a, b in pairs]
    assert 0.03 < np.mean(np.array(found) <= 0.1) < 0.17
