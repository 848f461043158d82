"""`paceline certify`: what holds is certified, what does not is told and fails."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from paceline.certify import law, proofs, report
from paceline.certify.parity import spelt
from paceline.cli.certify import own_prompts
from paceline.cli.prompts import read_prompts
from paceline.types import SamplingParams
from paceline.verify import rules

SHORT = ("certify", "--parity", "--limit", "2", "--max-tokens", "6", "--batch", "2")


@pytest.fixture(autouse=True)
def brief(monkeypatch, tmp_path):
    """One quick rule, few samples, hashes kept in a folder of the test's own."""
    one = [rules["greedy"]]
    prove_all = proofs.prove_all
    monkeypatch.setattr(proofs, "prove_all", lambda **how: prove_all(one, **how))
    monkeypatch.setattr(law, "QUICK", law.Effort(samples=100, seconds=0))
    monkeypatch.setattr(law, "LEAST", 100)
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 7}])
def test_no_fork(loaded, mini, sampling):
    prompts = [prompt.text for prompt in read_prompts(own_prompts(), limit=2)]
    params = SamplingParams(max_tokens=6, **{"temperature": 0, **sampling})
    tokens = sum(len(output.token_ids) for output in mini.generate(prompts, params))
    options = [word for name, value in sampling.items() for word in (f"--{name}", str(value))]
    ran = loaded(*SHORT, *options)
    assert (ran.code, ran.err) == (0, "")
    title, statement, *table = ran.out.splitlines()
    assert title == "The same text with speculation and without: passed"
    assert statement == f"2 prompts, {tokens} tokens, no forks."
    assert "acceptance rate" in table[1]


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
    found = json.loads(ran.out)
    (fork,) = found["parity"]["forks"]
    assert (ran.code, fork["prompt"], fork["position"]) == (1, 0, 2)
    assert fork["token_on"] == fork["token_off"] + 1
    assert (found["passed"], found["parity"]["passed"]) == (False, False)
    told = loaded(*SHORT)
    assert told.code == 1
    on, off = (
        " ".join(report.told(fork[f"text_{way}"], fork[f"token_{way}"]).split())
        for way in ("on", "off")
    )
    assert (
        f"prompt 1: the texts part at output token 2 ({on} with speculation, {off} without; the"
        " first logit led by "
    ) in " ".join(told.out.split())


def test_half_a_character_shows_as_its_bytes(mini):
    byte = next(i for i in range(300) if mini.tokenizer.token_bytes(i) == b"\xe4")
    assert spelt(mini.tokenizer, byte) == r"'\xe4'"
    assert report.told("'a\n'", 7) == r"'a\x0a', id 7"
    assert report.told(spelt(mini.tokenizer, None), None) == "the end"


@pytest.mark.parametrize("options", [("--draft", "none"), ("--k", "0")])
def test_nothing_to_compare_is_refused(loaded, options):
    ran = loaded(*SHORT, *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "paceline: Nothing drafts, so --parity has nothing to compare; name a drafter,"
        " as --draft ngram.\n"
    )


def test_all_checks_where_none_is_named(loaded, mini):
    ran = loaded("certify", "--json", "--max-tokens", "4", "--limit", "1")
    found = json.loads(ran.out)
    assert (ran.code, found["passed"]) == (0, True)
    assert [found[check]["passed"] for check in ("exact", "law", "parity")] == [True] * 3
    weights = mini.model.path / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert found["provenance"]["weights_sha256"] == {"model.safetensors": digest}
    assert found["provenance"]["model"] == "mini"
    assert found["law"]["samples"] == 100
    assert found["exact"]["proofs"][0]["rule"] == "greedy"


def test_proofs_alone_need_no_model(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("paceline.cli.certify.load", None)
    out = tmp_path / "certificate.md"
    ran = cli("certify", "--exact", "--quick", "--out", str(out))
    assert ran.code == 0
    assert ran.out.startswith("Proof by enumeration: passed")
    page = out.read_text()
    assert page.startswith("# Certificate: passed\n")
    assert "| greedy | any | " in page
    assert "| kernels | no model was run |" in page


def test_a_violation_is_told_and_fails(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(proofs, "violation", lambda case: "(0,) has probability 1")
    out = tmp_path / "certificate.md"
    ran = cli("certify", "--exact", "--quick", "--out", str(out))
    assert ran.code == 1
    assert "Proof by enumeration: FAILED" in ran.out
    assert "(0,) has probability 1" in ran.out
    assert out.read_text().startswith("# Certificate: FAILED\n")


def test_a_law_that_is_off_is_told_and_fails(loaded, monkeypatch):
    honest = law.law_tests
    monkeypatch.setattr(
        law, "law_tests", lambda *of: tuple(replace(t, p_value=5e-5) for t in honest(*of))
    )
    ran = loaded("certify", "--law", "--quick", "--rule", "coupled")
    assert ran.code == 1
    assert "The law of sampled text: FAILED" in ran.out
    assert "100 outputs of model:mini-draft under rule coupled" in ran.out
    assert "YES" in ran.out


def test_turns_that_are_not_run_are_told_once(loaded, templated, tmp_path):
    """With a template too: certify never answers its own replies."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"turns": ["def f():", "class A:"]}\n{"prompt": "x"}\n')
    ran = loaded(*SHORT, "--prompts", str(prompts))
    assert (ran.code, ran.out.splitlines()[1].split(",")[0]) == (0, "2 prompts")
    assert ran.err == (
        "paceline: to certify, only the first turn is run: 1 of 2 prompts have more.\n"
    )


def test_the_package_brings_twenty_prompts():
    texts = [prompt.text for prompt in read_prompts(own_prompts())]
    assert len(set(texts)) == 20
    assert texts[0] == "Write a Python function that merges two sorted lists."
