"""`paceline plan` and `paceline doctor` on a pair, as commands."""

from __future__ import annotations

import json

import pytest

from paceline.plan.record import MeasuredPlan


def test_the_command_measures_advises_and_draws(cli, tmp_path) -> None:
    ran = cli(
        *("plan", "--draft", "ngram", "--batch", "1,2", "--max-tokens", "12", "--json"),
        *("--prompts", str(prompts(tmp_path)), "--out", str(tmp_path / "out")),
    )
    assert (ran.code, ran.err) == (0, "")
    advice = json.loads(ran.out)["advice"]
    assert [one["batch"] for one in advice] == [1, 2]
    files = {path.name for path in (tmp_path / "out").iterdir()}
    figures = {"speedup.png", "passes.png", "acceptance.png", "batch.png"}
    assert files == {"plan.json", "plan.html", *figures}
    page = (tmp_path / "out" / "plan.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "://" not in page  # "http" alone may stand in the command or an image
    plan = MeasuredPlan.read(tmp_path / "out" / "plan.json")
    assert set(plan.drafters) == {"ngram"}


def test_what_was_measured_is_printed_for_another_engine(cli, tmp_path) -> None:
    ran = cli(
        *("plan", "--draft", "ngram", "--batch", "1", "--max-tokens", "8", "--emit", "llama.cpp"),
        *("--prompts", str(prompts(tmp_path)), "--target", "big.gguf"),
    )
    assert ran.code == 0
    assert ran.out.startswith("llama-server -m big.gguf")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--emit", "vlm"), "did you mean 'vllm'?"),
        (("--emit", "vllm", "--draft", "eagle"), "has no words for 'eagle'"),
        (("--emit", "vllm", "--draft", "model:a+suffix"), "has no words for 'model:a+suffix'"),
        (("--target", "big.gguf"), "--target needs --emit."),
        (("--rate", "5"), "--rate needs --simulate"),
        (("--target-params", "7B"), "--target-params needs --simulate"),
    ],
)
def test_options_that_a_plan_here_would_not_read_are_refused(cli, options, complaint) -> None:
    ran = cli("plan", *options)
    assert (ran.code, complaint in ran.err) == (2, True)


def prompts(folder):
    path = folder / "prompts.txt"
    path.write_text("a = 1\nfor i in range(3):\n")
    return path


def test_a_plan_without_drafters_or_sizes_says_what_is_missing(cli) -> None:
    ran = cli("plan", "--simulate", "h100")
    assert (ran.code, "--target-params 7B" in ran.err) == (2, True)


def test_doctor_refuses_a_pair_that_cannot_work(cli, monkeypatch) -> None:
    monkeypatch.setattr("paceline.cli.doctor_pair.free_bytes", lambda: 1)
    ran = cli("doctor", "--model", "mini", "--json")
    found = json.loads(ran.out)["pair"]
    assert ran.code == 1
    assert [one["what"] for one in found if not one["works"]] == ["memory"]


def test_doctor_examines_a_pair_at_work(cli, monkeypatch) -> None:
    monkeypatch.setattr("paceline.bench.pair.TOKENS", 8)
    ran = cli(
        "doctor", "--model", "mini", "--draft", "ngram", "--draft", "model:mini-draft", "--json"
    )
    found = json.loads(ran.out)["pair"]
    assert ran.code == 0
    assert [one["what"] for one in found[-2:]] == ["speed, ngram", "speed, model:mini-draft"]
    assert cli("doctor", "--draft", "ngram").code == 2


def test_doctor_refuses_threads_that_only_wait(cli) -> None:
    ran = cli("doctor", "--threads", "1000")
    assert (ran.code, ran.out) == (2, "")
    assert "1000 threads on" in ran.err


def test_draft_lengths_are_numbers_or_auto(cli) -> None:
    for bad in ("most", "-1"):
        ran = cli("generate", "--k", bad, "x")
        assert (ran.code, "number >= 0 or 'auto'" in ran.err) == (2, True)
    ran = cli("generate", "--max-k", "1:8,x", "x")
    assert (ran.code, "1:8,16:2,32:0" in ran.err) == (2, True)


def test_drafters_that_are_named_without_a_length_draft_by_what_pays(cli) -> None:
    args = ("--max-tokens", "24", "--json", "--draft", "ngram", "x = [1, 2, 3, 1, 2, 3, 1, 2,")
    assert json.loads(cli(*args).out)["speculation"]["steps"] > 0
    off = json.loads(cli(*args, "--max-k", "0").out)["speculation"]
    assert (off["proposed"], off["steps"]) == (0, 23)
    capped = json.loads(cli(*args, "--k", "6", "--max-k", "1:2").out)["speculation"]
    assert 0 < len(capped["per_position"]) <= 2


def test_bench_predict_tells_each_cell(cli) -> None:
    ran = cli(
        *("bench", "predict", "--draft", "ngram", "--kind", "edit", "--kind", "chat"),
        *("--k", "1,2", "--batch", "1", "--max-tokens", "12", "--json"),
    )
    found = json.loads(ran.out)
    assert [(one["k"], one["batch"]) for one in found["cells"]] == [(1, 1), (2, 1)]
    assert all(one["measured"] > 0 and one["from_trace"] > 0 for one in found["cells"])
    assert cli("bench", "predict", "--draft", "ngram", "--k", "0").code == 2
    few = cli("bench", "predict", "--draft", "ngram", "--kind", "edit")
    assert few.code == 2
    assert "2 is too few" in few.err
