"""`paceline certify --parity`: no fork on an honest engine, and a fork is told and fails."""

from __future__ import annotations

import json
import re

import pytest

from paceline.cli.certify import own_prompts
from paceline.cli.prompts import read_prompts
from paceline.types import SamplingParams

SHORT = ("certify", "--parity", "--limit", "2", "--max-tokens", "6", "--batch", "2")


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 7}])
def test_no_fork(loaded, mini, sampling):
    prompts = [prompt.text for prompt in read_prompts(own_prompts(), limit=2)]
    params = SamplingParams(max_tokens=6, **{"temperature": 0, **sampling})
    tokens = sum(len(output.token_ids) for output in mini.generate(prompts, params))
    options = [word for name, value in sampling.items() for word in (f"--{name}", str(value))]
    ran = loaded(*SHORT, *options)
    assert (ran.code, ran.err) == (0, "")
    first, rates, seconds = ran.out.splitlines()
    assert first == f"2 prompts, {tokens} tokens, no forks"
    assert re.fullmatch(r"acceptance rate [01]\.\d{3}, \d\.\d\d tokens committed per pass", rates)
    assert re.fullmatch(r"\d+\.\d s with speculation, \d+\.\d s without", seconds)


def test_a_fork_is_told_and_fails(loaded, mini, monkeypatch):
    honest = type(mini).generate

    def forking(llm, prompts, params=None, *, speculation=None):
        outputs = honest(llm, prompts, params, speculation=speculation)
        if speculation is None:
            ids = outputs[0].token_ids
            object.__setattr__(outputs[0], "token_ids", (*ids[:2], ids[2] + 1, *ids[3:]))
        return outputs

    monkeypatch.setattr(type(mini), "generate", forking)
    ran = loaded(*SHORT, "--json")
    (fork,) = json.loads(ran.out)["forks"]
    assert (ran.code, fork["prompt"], fork["position"]) == (1, 0, 2)
    assert fork["token_on"] == fork["token_off"] + 1
    told = loaded(*SHORT)
    assert told.code == 1
    assert told.out.startswith(
        f"prompt 1: the texts part at output token 2 ({fork['token_on']} with speculation, "
        f"{fork['token_off']} without; the first logit led by "
    )


def test_turns_that_are_not_run_are_told_once(loaded, templated, tmp_path):
    """With a template too: certify never answers its own replies."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"turns": ["def f():", "class A:"]}\n{"prompt": "x"}\n')
    ran = loaded(*SHORT, "--prompts", str(prompts))
    assert (ran.code, ran.out.splitlines()[0].split(",")[0]) == (0, "2 prompts")
    assert ran.err == (
        "paceline: to certify, only the first turn is run: 1 of 2 prompts have more.\n"
    )


def test_the_package_brings_twenty_prompts():
    texts = [prompt.text for prompt in read_prompts(own_prompts())]
    assert len(set(texts)) == 20
    assert texts[0] == "Write a Python function that merges two sorted lists."
