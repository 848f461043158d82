"""Every setting of a body has the effect it has in Python; sections C, D and E of the cases."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from paceline.cli.main import main
from paceline.engine import LLM
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams
from tests.conftest import PROMPTS
from tests.live_server import Live

BASE = {"temperature": 0.9, "seed": 4, "max_tokens": 16}
COMPLETIONS = "/v1/completions"
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "top_k": ({"top_k": 3}, {}),
    "top_p": ({"top_p": 0.3}, {}),
    "min_p": ({"min_p": 0.3}, {}),
    "typical_p": ({"typical_p": 0.3}, {}),
    "presence_penalty": ({"presence_penalty": 2.0}, {}),
    "frequency_penalty": ({"frequency_penalty": -2.0}, {}),
    "repetition_penalty": ({"repetition_penalty": 3.0}, {}),
    "logit_bias": ({"logit_bias": {"260": 100}}, {"logit_bias": {260: 100.0}}),
    "bad_words": ({"bad_words": ["parent", "open", "path"]}, {}),
    "allowed_token_ids": ({"allowed_token_ids": [260, 261, 262]}, {}),
    "min_tokens": ({"min_tokens": 16, "logit_bias": {"0": 100}}, {"logit_bias": {0: 100.0}}),
    "stop": ({"stop": ["e", "("]}, {}),
    "stop_token_ids": ({"stop_token_ids": [*range(200, 400)]}, {}),
    "ignore_eos": ({"ignore_eos": True}, {}),
    "regex": (
        {"structured_outputs": {"regex": "[ab]{3,5}"}},
        {"structured": StructuredOutput(regex="[ab]{3,5}")},
    ),
    "choice": (
        {"structured_outputs": {"choice": ["red", "blue"]}},
        {"structured": StructuredOutput(choice=("red", "blue"))},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_setting(server: Live, mini: LLM, name: str) -> None:
    asked, meant = SETTINGS[name]
    own = {key: value for key, value in asked.items() if key != "structured_outputs"}
    (expected,) = mini.generate(PROMPTS[1], SamplingParams(**{**BASE, **own, **meant}))
    plain = server.post(COMPLETIONS, prompt=PROMPTS[1], **BASE)
    reply = server.post(COMPLETIONS, prompt=PROMPTS[1], **BASE, **asked)
    (choice,) = reply["choices"]
    assert choice["text"] == expected.text
    assert choice["finish_reason"] == expected.finish_reason.value
    if name not in ("ignore_eos", "min_tokens"):
        assert choice["text"] != plain["choices"][0]["text"]


def test_processed_logprobs(server: Live, mini: LLM) -> None:
    params = SamplingParams(**BASE, top_k=2, logprobs=1, processed_logprobs=True)
    (expected,) = mini.generate(PROMPTS[1], params)
    asked = {**BASE, "top_k": 2, "logprobs": 1, "processed_logprobs": True}
    (choice,) = server.post(COMPLETIONS, prompt=PROMPTS[1], **asked)["choices"]
    assert choice["logprobs"]["token_logprobs"] == [e.logprob for e in expected.logprobs or ()]


def test_token_ids_for_a_prompt(server: Live, mini: LLM) -> None:
    ids = mini.encode(PROMPTS[1])
    texts = [
        [c["text"] for c in server.post(COMPLETIONS, prompt=prompt, **BASE)["choices"]]
        for prompt in (PROMPTS[1], ids, [ids, ids])
    ]
    assert texts[0] == texts[1]
    assert texts[2] == texts[0] * 2


def test_null_is_the_default(server: Live) -> None:
    nulls = dict.fromkeys(("top_p", "stop", "logit_bias", "n", "echo", "suffix", "user", "store"))
    plain = server.post(COMPLETIONS, prompt=PROMPTS[1], **BASE)["choices"]
    assert server.post(COMPLETIONS, prompt=PROMPTS[1], **BASE, **nulls)["choices"] == plain


def test_inert_fields_change_nothing(server: Live) -> None:
    inert = {
        "user": "u",
        "metadata": {"a": "b"},
        "store": True,
        "safety_identifier": "s",
        "prompt_cache_key": "k",
    }
    plain = server.post(COMPLETIONS, prompt=PROMPTS[1], **BASE)["choices"]
    assert server.post(COMPLETIONS, prompt=PROMPTS[1], **BASE, **inert)["choices"] == plain


def test_unseeded_independent(server: Live) -> None:
    """TensorRT-LLM 19487: requests without a seed shared one stream, and came out alike."""
    asked = {"prompt": PROMPTS[1], "temperature": 1.5, "max_tokens": 16}
    texts = [server.post(COMPLETIONS, **asked)["choices"][0]["text"] for _ in range(4)]
    assert len(set(texts)) == 4


def test_stop_string_trims_all(server: Live, mini: LLM) -> None:
    """vLLM 47616: text was trimmed at a stop string, ids and log-probabilities were not."""
    plain = server.post(COMPLETIONS, prompt=PROMPTS[1], logprobs=1, **BASE)["choices"][0]
    stop = plain["text"][9:12]
    asked = {"prompt": PROMPTS[1], "logprobs": 1, "stop": stop, "token_events": True, **BASE}
    reply = server.post(COMPLETIONS, **asked)
    (choice,) = reply["choices"]
    assert choice["text"] == plain["text"].partition(stop)[0]
    assert choice["finish_reason"] == "stop"
    count = reply["usage"]["completion_tokens"]
    assert count < BASE["max_tokens"]
    assert choice["logprobs"]["token_logprobs"] == plain["logprobs"]["token_logprobs"][:count]
    assert len(choice["tokens"]) == count
    assert "".join(token["text"] for token in choice["tokens"]) == choice["text"]


def test_server_cli_parity(server: Live, capsys: Any, monkeypatch: Any) -> None:
    """llama.cpp 10664: server and command line went different ways with the same flags."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    flags = ["--temperature", "0.9", "--seed", "4", "--max-tokens", "16", "--logprobs", "1"]
    assert main(["generate", "--json", *flags, PROMPTS[1]]) == 0
    told = json.loads(capsys.readouterr().out)
    reply = server.post(COMPLETIONS, prompt=PROMPTS[1], logprobs=1, **BASE)
    (choice,) = reply["choices"]
    assert choice["text"] == told["text"]
    assert choice["logprobs"]["token_logprobs"] == [e["logprob"] for e in told["logprobs"]]
    assert reply["usage"]["speculation"] == told["speculation"] | {"drafter": "model"}
