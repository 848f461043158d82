"""`certify --law` at full length on mini, and on a real model."""

from __future__ import annotations

import math

import pytest

from paceline.certify.forced import Distort
from paceline.certify.law import FULL, PROMPT, Effort, check_law
from paceline.engine import LLM

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]

AT_ONCE = 64


def one_percent(token: int) -> Distort:
    """Moves a mass of 0.01 from the likeliest id to the second of one token's law."""

    def distort(index, laws):
        if index == token:
            laws = laws.clone()
            first, second = laws.topk(2).indices.T
            laws[range(len(laws)), first] -= 0.01
            laws[range(len(laws)), second] += 0.01
        return laws

    return distort


@pytest.mark.parametrize("distort", [None, one_percent(2)], ids=["honest", "off by 0.01"])
def test_full_length(distort: Distort | None) -> None:
    """An honest engine fails with probability 1e-3; one that is off is missed with 0.1 at most."""
    llm = LLM("mini", draft="model:mini-draft", max_num_requests=AT_ONCE, max_model_len=128)
    effort = Effort(samples=FULL.samples, seconds=math.inf)
    report = check_law(llm, PROMPT, effort=effort, distort=distort)
    assert report.detectable_tv < 0.01
    assert report.passed is (distort is None)


def test_a_real_model() -> None:
    """2,000 samples: a total variation of 0.061 in one token's law is found with a power of 0.9."""
    llm = LLM("qwen2.5-coder-0.5b", draft="ngram", max_num_requests=AT_ONCE, max_model_len=128)
    report = check_law(llm, PROMPT, effort=Effort(samples=2_000, seconds=math.inf))
    assert report.accepted > 500
    assert report.passed
