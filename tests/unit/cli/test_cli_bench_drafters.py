"""`paceline bench drafters`: sums over prompts, the table and the JSON object."""

from __future__ import annotations

import json

import pytest

from paceline.bench.drafters import Runs, added, decode
from paceline.types import SamplingParams, Speculation

GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)


def test_drafters_are_compared_with_plain_decoding(cli):
    arguments = ("--kind", "complete", "--max-tokens", "12", "--draft", "ngram", "--draft", "eagle")
    arguments += ("--prompts-per-kind", "1")
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
        *("--kind", "chat", "--kind", "maths", "--prompts-per-kind", "1"),
    )
    assert ran.code == 0, ran.err
    assert [line.split("│")[1].strip() for line in ran.out.splitlines() if "│ suffix" in line] == [
        "chat",
        "maths",
    ]


def test_prompts_of_a_file_come_first(cli, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"kind": "chat", "prompt": "a = 1\\n"}\n')
    arguments = ("--kind", "chat", "--max-tokens", "4", "--draft", "ngram", "--json")
    report = tmp_path / "report.md"
    told = cli(
        *("bench", "drafters", *arguments, "--prompts-per-kind", "1"),
        *("--dataset", str(file), "--markdown", str(report)),
    )
    assert json.loads(told.out)["setting"]["model"] == "mini"
    assert "| chat | ngram |" in report.read_text()
    assert cli("bench", "drafters", "--dataset", str(tmp_path / "none")).code == 2


def test_a_text_seen_before_is_not_known(mini):
    """Plain decoding of a prompt must not teach a drafter the text it is then measured on."""
    ids, params = mini.encode("def read_lines(path):\n"), GREEDY
    counts = [
        decode(mini, ids, params, Speculation(drafter="suffix"))[0].counts.accepted
        for _ in range(2)
    ]
    assert counts[0] == counts[1]
    mini.generate([ids], params, speculation=Speculation(drafter="suffix"))
    known = mini.generate([ids], params, speculation=Speculation(drafter="suffix"))
    assert known[0].counts.accepted > counts[0]


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
