"""`paceline generate` on the embedded model: the text, the JSON, many prompts."""

from __future__ import annotations

import gzip
import json

import pytest

from paceline.engine import LLM
from paceline.types import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=10)
N = ("--max-tokens", "10")
KEYS = {
    "": {"text", "token_ids", "finish_reason", "usage", "speculation", "timing"},
    "usage": {"prompt_tokens", "completion_tokens"},
    "speculation": {
        "drafter",
        "rule",
        "steps",
        "proposed",
        "verified",
        "accepted",
        "committed",
        "mean_committed_per_pass",
        "acceptance_rate",
        "per_position",
        "estimated_speedup",
    },
    "timing": {"load_s", "prefill_s", "decode_s", "decode_tokens_per_s"},
}


def test_text_streams_to_stdout(loaded, mini):
    (expected,) = mini.generate("def add(a, b):", GREEDY)
    ran = loaded("def add(a, b):", *N)
    assert ran == (0, expected.text.removesuffix("\n") + "\n", "")


def test_the_whole_command_once(cli, mini):
    """Loads by itself, with mini's own draft model by default."""
    (expected,) = mini.generate("def add(a, b):", GREEDY)
    ran = cli("def add(a, b):", *N, "--json")
    found = json.loads(ran.out)
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    assert (found["text"], tuple(found["token_ids"])) == (expected.text, expected.token_ids)
    assert found["speculation"]["drafter"] == "model:mini-draft"
    assert found["speculation"]["rule"] == "greedy"
    assert found["speculation"]["proposed"] > 0
    for part, keys in KEYS.items():
        assert set(found[part] if part else found) == keys


def test_options_reach_the_engine(cli):
    """Each of these changes what is reported, so none can be dead."""
    args = ("x = [1, 2, 3, 1, 2, 3, 1, 2,", "--max-tokens", "24", "--json")
    found = json.loads(
        cli(*args, "--draft", "none", "--draft", "ngram", "--temperature", "0.5").out
    )
    assert (found["speculation"]["drafter"], found["speculation"]["rule"]) == ("none", "block")
    found = json.loads(
        cli(*args, "--draft", "ngram", "--k", "1", "--rule", "coupled", "--seed", "3").out
    )
    assert found["speculation"]["drafter"] == "ngram"
    assert found["speculation"]["rule"] == "coupled"
    assert found["speculation"]["proposed"] <= found["speculation"]["steps"]


@pytest.mark.parametrize(
    ("args", "params"),
    [
        (["-t", "0.7", "--seed", "5"], {"temperature": 0.7, "seed": 5}),
        (["-t", "2", "--seed", "5", "--top-k", "3"], {"temperature": 2, "seed": 5, "top_k": 3}),
        (["-t", "2", "--seed", "5", "--top-p", "0.3"], {"temperature": 2, "seed": 5, "top_p": 0.3}),
        (["-t", "2", "--seed", "5", "--min-p", "0.2"], {"temperature": 2, "seed": 5, "min_p": 0.2}),
    ],
)
def test_sampling_options(loaded, mini, args, params):
    plain = tuple(json.loads(loaded("def add(a, b):", "--json", *N).out)["token_ids"])
    (expected,) = mini.generate("def add(a, b):", SamplingParams(max_tokens=10, **params))
    found = json.loads(loaded("def add(a, b):", "--json", *N, *args).out)
    assert tuple(found["token_ids"]) == expected.token_ids
    assert found["text"] == expected.text
    assert expected.token_ids != plain


@pytest.mark.parametrize("others", [(), ("no such text",)])
def test_each_stop_ends_the_text_before_it(loaded, mini, others):
    (plain,) = mini.generate("def add(a, b):", GREEDY)
    stop = plain.text[4:7]
    options = [word for text in (*others, stop) for word in ("--stop", text)]
    found = json.loads(loaded("def add(a, b):", "--json", *N, *options).out)
    assert found["text"] == plain.text[: plain.text.index(stop)]
    assert found["finish_reason"] == "stop"


def test_color_marks_exactly_the_accepted_tokens(loaded, monkeypatch):
    llm = LLM("mini", draft="model:mini")  # Drafts what it will accept.
    monkeypatch.setattr("paceline.cli.generate.load", lambda *args, **settings: llm)
    with llm.stream("def add(a, b):", GREEDY) as stream:
        drafted = [llm.tokenizer.decode(d.token_ids[: d.drafted]) for d in stream]
    ran = loaded("def add(a, b):", "--color", *N)
    green = [part.split("\x1b[0m")[0] for part in ran.out.split("\x1b[32m")[1:]]
    assert "".join(green) == "".join(drafted)
    assert len(green) > 5
    plain = ran.out.replace("\x1b[32m", "").replace("\x1b[0m", "")
    assert plain == loaded("def add(a, b):", *N).out


def test_without_color_there_is_no_escape(loaded):
    assert "\x1b" not in loaded("def add(a, b):", "--stats", *N).out


def test_stats_go_to_stderr(loaded):
    plain = loaded("def add(a, b):", *N)
    ran = loaded("def add(a, b):", "--stats", *N)
    assert (ran.code, ran.out) == (0, plain.out)
    for word in ("model:mini-draft, greedy", "by position", "peak memory"):
        assert word in ran.err


def write(path, *records) -> None:
    path.write_text("\n".join(json.dumps(record) for record in records))


@pytest.mark.parametrize("batch", ["1", "3"])
def test_every_line_of_a_text_file_in_order(loaded, mini, tmp_path, batch):
    prompts = ["def add(a, b):", "import os", "class Reader:", "for i in range(10):"]
    (tmp_path / "p.txt").write_text("\n".join(prompts))
    ran = loaded("--prompts", str(tmp_path / "p.txt"), "--batch", batch, *N)
    found = [tuple(json.loads(line)["token_ids"]) for line in ran.out.splitlines()]
    assert found == [output.token_ids for output in mini.generate(prompts, GREEDY)]
    assert (ran.code, ran.err) == (0, "")


def test_gzip_of_json_lines_with_a_limit(loaded, mini, tmp_path):
    prompts = ["def add(a, b):", "import os", "class Reader:"]
    lines = "\n".join(json.dumps({"task_id": "x", "prompt": p}) for p in prompts)
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    ran = loaded("--prompts", str(tmp_path / "p.jsonl.gz"), "--limit", "2", *N)
    found = [json.loads(line)["text"] for line in ran.out.splitlines()]
    assert found == [output.text for output in mini.generate(prompts[:2], GREEDY)]


def test_without_a_template_the_first_turn_is_run(loaded, mini, tmp_path):
    write(tmp_path / "p.jsonl", {"turns": ["def add(a, b):", "class Reader:"]})
    ran = loaded("--prompts", str(tmp_path / "p.jsonl"), *N)
    found = json.loads(ran.out)
    assert found["text"] == mini.generate("def add(a, b):", GREEDY)[0].text
    assert "turns" not in found


@pytest.mark.parametrize("args", [(), ("--raw",)])
def test_turns_that_are_not_run_are_told_once(loaded, request, tmp_path, args):
    if args:
        request.getfixturevalue("templated")
    turns = {"turns": ["def add(a, b):", "class Reader:"]}
    write(tmp_path / "p.jsonl", turns, {"prompt": "x"}, turns)
    ran = loaded("--prompts", str(tmp_path / "p.jsonl"), "--batch", "1", *N, *args)
    assert (ran.code, ran.out.count("\n")) == (0, 3)
    assert ran.err == (
        "paceline: without a chat template, only the first turn is run: 2 of 3 prompts have more.\n"
    )


def test_without_a_template_messages_are_refused(loaded, tmp_path):
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    write(tmp_path / "p.jsonl", {"prompt": "x"}, {"messages": messages})
    ran = loaded("--prompts", str(tmp_path / "p.jsonl"), *N)
    assert (ran.code, ran.out) == (2, "")
    assert "p.jsonl line 2: These messages need a chat template" in ran.err


def test_a_template_is_applied_unless_raw(loaded, templated):
    for args, prompt in (((), "# user: def f():\n"), (("--raw",), "def f():")):
        (expected,) = templated.generate(prompt, GREEDY)
        found = json.loads(loaded("def f():", "--json", *N, *args).out)
        assert tuple(found["token_ids"]) == expected.token_ids
        assert found["usage"]["prompt_tokens"] == expected.prompt_tokens
        assert loaded("def f():", *N, *args).out == expected.text.removesuffix("\n") + "\n"


@pytest.mark.parametrize("batch", ["1", "2"])
def test_turns_are_a_conversation(loaded, templated, tmp_path, batch):
    def reply(*said: str) -> tuple[str, ...]:
        """The replies to the user's turns so far."""
        replies: list[str] = []
        for i in range(len(said)):
            lines = [
                f"# user: {said[j]}\n" + (f"# assistant: {replies[j]}\n" if j < i else "")
                for j in range(i + 1)
            ]
            replies.append(templated.generate("".join(lines), GREEDY)[0].text)
        return tuple(replies)

    write(
        tmp_path / "p.jsonl",
        {"turns": ["import os", "def f():"]},
        {"turns": ["class A:"]},
        {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]},
    )
    ran = loaded("--prompts", str(tmp_path / "p.jsonl"), "--batch", batch, *N)
    two, one, messages = map(json.loads, ran.out.splitlines())
    first, second = reply("import os", "def f():")
    assert [turn["text"] for turn in two["turns"]] == [first, second]
    assert two["text"] == second
    assert (one["text"], "turns" in one) == (*reply("class A:"), False)
    (expected,) = templated.generate("# system: a\n# user: b\n", GREEDY)
    assert messages["text"] == expected.text


def test_a_prompt_too_long_ends_the_run_before_it_starts(loaded, tmp_path):
    (tmp_path / "p.txt").write_text("def f():\n" + "x " * 5000)
    ran = loaded("--prompts", str(tmp_path / "p.txt"), *N)
    assert (ran.code, ran.out) == (2, "")
    assert "p.txt line 2: The prompt has " in ran.err


def test_nothing_is_left_in_the_pool(loaded, mini):
    loaded("def f():", "--color", *N)
    assert not mini.engine.has_work
    mini.engine.pool.check()


def test_a_turn_that_cannot_run_is_named(loaded, templated, tmp_path):
    turns = ["import os", "x = 1\n" * 400]
    write(tmp_path / "p.jsonl", {"turns": ["import os"]}, {"turns": turns})
    ran = loaded("--prompts", str(tmp_path / "p.jsonl"), "--batch", "2", *N)
    assert (ran.code != 0, ran.out) == (True, "")
    assert f"{tmp_path / 'p.jsonl'} line 2: The prompt has " in ran.err


@pytest.mark.parametrize("command", [("generate", "x"), ("doctor",)])
@pytest.mark.parametrize("threads", ["0", "1025"])
def test_threads_out_of_range_are_refused(cli, command, threads):
    ran = cli(*command, "--threads", threads)
    assert (ran.code, ran.out) == (2, "")
    assert "--threads" in ran.err
    assert "than or equal to" in ran.err
