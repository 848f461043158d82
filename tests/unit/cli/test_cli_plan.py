"""`paceline plan --simulate`: the table, the record, other engines, and bad input."""

from __future__ import annotations

import json

import pytest

H100 = ("plan", "--simulate", "h100", "--target-params", "70B", "--draft-params", "1B")


def test_table(cli):
    result = cli(*H100)
    assert result.code == 0
    assert "NVIDIA H100 SXM, on paper" in result.out
    assert "A pass costs what one row does up to 221 rows." in result.out
    assert "do not fit" in result.out


def test_record(cli):
    found = json.loads(cli(*H100, "--batch", "1,64", "--json").out)
    assert [one["batch"] for one in found["lengths"]] == [1, 64]
    assert found["lengths"][0]["k"] == 8
    assert found["lengths"][0]["speedup"] == pytest.approx(2.871, abs=5e-4)
    assert found["served"] == {}


def test_requests_over_time(cli):
    load = ("--rate", "50", "--requests", "20", "--output-tokens", "16", "--bursty", "--json")
    served = json.loads(cli(*H100, *load).out)["served"]
    assert set(served) == {"plain", "k = 8", "controller"}
    assert served["plain"]["committed_per_pass"] == 1
    assert served["k = 8"]["committed_per_pass"] > 2
    assert "controller" in cli(*H100, *load[:-1]).out


def test_a_trace_is_replayed(cli, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("[[4, 4], [4, 4], [4, 0]]\n[[4, 4], [4, 0]]\n")
    found = json.loads(cli(*H100, "--trace", str(trace), "--json").out)
    assert found["lengths"][0]["k"] >= 4
    trace.write_text("[[4, 4]]\nnonsense\n")
    broken = cli(*H100, "--trace", str(trace))
    assert (broken.code, "line 2" in broken.err) == (2, True)


def test_emit(cli):
    result = cli(*H100, "--emit", "vllm", "--target", "org/big", "--draft", "org/small")
    assert result.out.startswith("vllm serve org/big --speculative-config")
    assert '"model": "org/small"' in result.out


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--simulate", "h1000"), "did you mean 'h100'?"),
        (("--target-params", "big"), "write 7B"),
        (("--batch", "1,x"), "--batch wants numbers"),
        (("--emit", "vlm"), "did you mean 'vllm'?"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_bad_input_is_one_line(cli, more, complaint):
    result = cli(*H100, *more)
    assert result.code in {1, 2}
    assert complaint in result.err
    assert result.err.count("\n") == 1
