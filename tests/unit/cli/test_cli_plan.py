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


def test_help_tells_what_a_trace_holds(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "JSON lines of [proposed, accepted] pairs" in cli("plan", "--help").out


@pytest.mark.parametrize("batch", ["1048576", "1,64"])
def test_the_largest_plan_is_quick_and_finite(cli, batch):
    load = ("--context", str(2**30), "--kv-bytes", "1e9", "--max-k", "1024", "--json")
    found = cli(*H100, "--batch", batch, *load)
    assert found.code == 0
    assert "NaN" not in found.out
    assert "Infinity" not in found.out


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "holds no trace"),
        (b"\n \n", "holds no trace"),
        (b"\x7fELF\xff", "is not UTF-8 text"),
        (b"[[4, 4]]\n" + b"[" * 200_000, "line 2 nests too many brackets"),
        (b"[[4, 4]]\n[[0, 0]]", "line 2 is no list of [proposed, accepted] pairs"),
        (b"[[4, 5]]", "line 1 is no list"),
        (b"[[2, -1]]", "line 1 is no list"),
        (b"[[1e999, 1]]", "line 1 is no list"),
        (b"[[1000000000000, 1000000000000]]", "line 1 is no list"),
        (b'{"a": 1}', "line 1 is no list"),
        (b"7", "line 1 is no list"),
    ],
)
def test_a_bad_trace_is_one_line(cli, tmp_path, data, complaint):
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(data)
    result = cli(*H100, "--trace", str(trace))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert str(trace) in result.err
    assert complaint in result.err


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        *((("--target-params", size), "1 to 1e+15 param") for size in ("nan", "inf", "1e308", "0")),
        *((("--draft-params", size), "1 to 1e+15 param") for size in ("nan", "1e400", "-1")),
        *((("--kv-bytes", size), "keys and values") for size in ("nan", "-5", "1e300")),
        *((("--rate", rate), "positive rate") for rate in ("nan", "inf", "0", "1e-320")),
        *((("--batch", size), "batch sizes between") for size in ("100000000", "9" * 30)),
        *((("--batch", sizes), "Sizes are numbers from 1") for sizes in ("0", "1,x", "9" * 5000)),
        (("--context", "9" * 20), "--context"),
        (("--max-k", "1000000"), "--max-k"),
        (("--alpha", "nan"), "rates between 0 and 1"),
        (("--rate", "1", "--requests", "9" * 12), "fewer --requests"),
        (("--emit", "sglang", "--json"), "leave out --json"),
        *(((option, "x"), f"{option} is for meas") for option in ("--out", "--model", "--prompts")),
        (("--requests", "5"), "--requests needs --rate."),
        (("--draft", "org/small"), "--draft names the draft for --emit"),
        (("--simulate", "h1000"), "did you mean 'h100'?"),
        (("--target-params", "big"), "write 7B"),
        (("--emit", "vlm"), "did you mean 'vllm'?"),
        (("--trace", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_bad_input_is_one_line(cli, more, complaint):
    result = cli(*H100, *more)
    assert result.code == 2
    assert complaint in result.err
    assert result.err.count("\n") == 1
