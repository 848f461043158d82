"""`paceline certify --parity`: no fork on an honest engine, and a fork is told and fails."""

from __future__ import annotations

import json

import pytest

from paceline.cli.certify import own_prompts
from paceline.cli.prompts import read_prompts

SHORT = ("certify", "--parity", "--limit", "3", "--max-tokens", "8", "--batch", "3")


@pytest.mark.parametrize("sampling", [(), ("--temperature", "0.8", "--seed", "7")])
def test_no_fork(loaded, sampling):
    ran = loaded(*SHORT, *sampling)
    assert (ran.code, ran.err) == (0, "")
    assert "3 prompts, 24 tokens, no forks\nacceptance rate 0." in ran.out


def test_json(loaded):
    found = json.loads(loaded(*SHORT, "--json").out)
    assert (found["prompts"], found["tokens"], found["forks"]) == (3, 24, [])
    assert 0 < found["acceptance_rate"] <= 1 <= found["mean_committed_per_pass"]


def test_a_fork_is_told_and_fails(loaded, mini, monkeypatch):
    honest = type(mini).generate

    def forking(llm, prompts, params=None, *, speculation=None):
        outputs = honest(llm, prompts, params, speculation=speculation)
        if speculation is None:
            ids = outputs[0].token_ids
            object.__setattr__(outputs[0], "token_ids", (*ids[:5], ids[5] + 1, *ids[6:]))
        return outputs

    monkeypatch.setattr(type(mini), "generate", forking)
    ran = loaded(*SHORT, "--limit", "1")
    assert ran.code == 1
    assert ran.out.startswith("prompt 1: the texts part at output token 5 (")
    assert "1 prompts, 8 tokens, 1 forks" in ran.out


def test_the_package_brings_twenty_prompts():
    texts = [prompt.text for prompt in read_prompts(own_prompts())]
    assert len(set(texts)) == 20
    assert texts[0] == "Write a Python function that merges two sorted lists."
