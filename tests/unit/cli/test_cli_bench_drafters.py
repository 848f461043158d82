"""`paceline bench drafters`: sums over prompts, the table and the JSON object."""

from __future__ import annotations

import json

import pytest

from paceline.bench.drafters import Runs, added
from paceline.bench.prompt_kinds import KINDS


def test_the_kinds_are_those_of_the_other_benchmarks():
    assert list(KINDS) == ["complete", "edit", "extract", "chat", "maths"]


def test_drafters_are_compared_with_plain_decoding(cli):
    arguments = ("--kind", "complete", "--max-tokens", "12", "--draft", "ngram", "--draft", "eagle")
    found = json.loads(cli("bench", "drafters", *arguments, "--json").out)["drafters"]
    assert [(each["drafter"], each["kind"]) for each in found] == [
        ("ngram", "complete"),
        ("eagle", "complete"),
    ]
    for each in found:
        assert each["same_text"]
        assert each["tokens_per_pass"] >= 1
        assert each["speedup"] > 0
    assert found[1]["draft_ms"] > found[0]["draft_ms"]


def test_a_row_a_kind_and_drafter(cli):
    ran = cli(
        *("bench", "drafters", "--draft", "suffix", "--max-tokens", "8"),
        *("--kind", "chat", "--kind", "maths"),
    )
    assert ran.code == 0, ran.err
    assert [line.split("│")[1].strip() for line in ran.out.splitlines() if "suffix" in line] == [
        "chat",
        "maths",
    ]


def test_an_unknown_kind_is_named(cli):
    ran = cli("bench", "drafters", "--kind", "math")
    assert ran.code == 2
    assert "did you mean 'maths'" in ran.err


def test_rates_are_of_all_prompts_together():
    plain = Runs(passes=20, committed=20, decode_s=2.0)
    runs = Runs(
        passes=10, committed=25, decode_s=1.0, draft_s=0.1, reached=(10, 4), survived=(4, 1)
    )
    found = runs.against(plain, "x", "chat")
    assert found.tokens_per_pass == pytest.approx(2.5)
    assert found.per_position == (0.4, 0.25)
    assert found.draft_ms == pytest.approx(10)
    assert found.speedup == pytest.approx(2.5)
    assert added((1, 2), (1,)) == (2, 2)
