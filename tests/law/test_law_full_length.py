"""`certify --law` at full length on mini: by each drafter and rule, and with a fault put in."""

from __future__ import annotations

import math

import pytest

from paceline.certify.forced import Distort
from paceline.certify.law import FULL, PROMPT, Effort, LawReport, check_law
from paceline.engine import LLM
from paceline.types import Speculation

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]

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


WAYS = [
    ("model:mini-draft", "block"),
    ("model:mini-draft", "coupled"),
    ("ngram", "token"),
    ("suffix", "multi"),
    ("suffix", "traversal"),
]


@pytest.mark.parametrize(("draft", "rule"), WAYS)
def test_full_length(draft: str, rule: str) -> None:
    """An honest engine fails with probability 1e-3."""
    assert full_length(draft, rule).passed


def test_one_percent_in_one_tokens_law_is_found() -> None:
    """It is missed with a probability of 0.1 at most."""
    report = full_length(*WAYS[0], distort=one_percent(2))
    assert report.detectable_tv < 0.01
    assert not report.passed


def full_length(draft: str, rule: str, distort: Distort | None = None) -> LawReport:
    llm = LLM("mini", draft=draft, max_num_requests=AT_ONCE, max_model_len=128)
    effort = Effort(samples=FULL.samples, seconds=math.inf)
    speculation = Speculation(rule=rule)
    return check_law(llm, PROMPT, speculation=speculation, effort=effort, distort=distort)
