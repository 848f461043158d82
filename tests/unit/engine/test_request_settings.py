"""Every setting holds at every drafted position: text, ids and log-probabilities are plain's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.engine import LLM
from paceline.engine.settings import word_ids
from paceline.errors import RequestError
from paceline.runtime import next_logits
from paceline.types import Output, SamplingParams, Speculation
from tests.conftest import ALL_DRAFTS, PROMPTS

PLAIN = Speculation(k=0)
LONG = {"max_tokens": 40, "ignore_eos": True}


def no_newline(output: list[int], row: Tensor) -> Tensor:
    """A processor that depends on the path: every third token is taken from the odd ids."""
    if len(output) % 3 == 2:
        row[::2] = -torch.inf
    return row


SETTINGS: dict[str, dict[str, Any]] = {
    "presence": {"presence_penalty": 1.5},
    "frequency": {"frequency_penalty": 0.8},
    "negative frequency": {"frequency_penalty": -0.3},
    "repetition": {"repetition_penalty": 1.4},
    "bias": {"logit_bias": {10: 3.0, 11: -100.0, 200: 2.5}},
    "bad words": {"bad_words": ("self", " return", "):", "in range")},
    "allowed": {"allowed_token_ids": tuple(range(0, 3000, 3))},
    "min tokens": {"min_tokens": 30, "ignore_eos": False, "stop_token_ids": (199, 14, 13)},
    "processor": {"logits_processors": (no_newline,)},
    "typical": {"typical_p": 0.8},
    "all": {
        "presence_penalty": 0.4,
        "frequency_penalty": 0.2,
        "repetition_penalty": 1.1,
        "logit_bias": {10: 3.0},
        "bad_words": ("self",),
        "min_tokens": 5,
        "logits_processors": (no_newline,),
        "min_p": 0.01,
        "top_k": 50,
        "top_p": 0.95,
        "typical_p": 0.95,
        "logprobs": 2,
    },
}


def run(llm: LLM, params: SamplingParams, drafter: str | None) -> list[Output]:
    """Outputs of all prompts, from a cache without prefixes."""
    llm.engine.pool.forget_prefixes()
    speculation = PLAIN if drafter is None else Speculation(drafter=drafter, k=5)
    return llm.generate(PROMPTS, params, speculation=speculation)


@pytest.mark.parametrize("seeded", [{"temperature": 0}, {"temperature": 1.0, "seed": 5}])
@pytest.mark.parametrize("name", SETTINGS)
def test_drafted_text_is_plain_text(mini: LLM, name: str, seeded: dict[str, Any]) -> None:
    params = SamplingParams(**{**LONG, **seeded, **SETTINGS[name]})
    plain = run(mini, params, None)
    accepted = 0
    for drafter in ALL_DRAFTS:
        drafted = run(mini, params, drafter)
        assert [o.token_ids for o in drafted] == [o.token_ids for o in plain], drafter
        assert [o.logprobs for o in drafted] == [o.logprobs for o in plain], drafter
        accepted += sum(o.counts.accepted for o in drafted)
    assert accepted > 0
    without = run(mini, SamplingParams(**{**LONG, **seeded}), None)
    changed = [o.token_ids for o in plain] != [o.token_ids for o in without]
    assert changed or (name == "typical" and not params.temperature)


def test_bad_words_do_not_come_about(mini: LLM) -> None:
    words = ("self", " return", "range")
    params = SamplingParams(temperature=1.0, seed=3, bad_words=words, **LONG)
    banned = {ids for word in words for ids in word_ids(word, mini.tokenizer)}
    for output in run(mini, params, "model"):
        for ids in banned:
            spans = zip(*(output.token_ids[at:] for at in range(len(ids))), strict=False)
            assert ids not in spans


def test_allowed_ids_and_a_bias_that_forces(mini: LLM) -> None:
    allowed = tuple(range(100, 400))
    only = SamplingParams(temperature=1.0, seed=1, allowed_token_ids=allowed, **LONG)
    assert {t for o in run(mini, only, "model") for t in o.token_ids} <= set(allowed)
    forced = SamplingParams(temperature=1.0, seed=1, logit_bias={321: 1000.0}, max_tokens=9)
    assert {o.token_ids for o in run(mini, forced, "model")} == {(321,) * 9}


@pytest.mark.parametrize("drafter", [None, "model"])
def test_nothing_ends_a_text_before_min_tokens(mini: LLM, drafter: str | None) -> None:
    """Neither a stop id nor a stop string, and what came before is not part of one."""
    free = SamplingParams(temperature=0, max_tokens=30, ignore_eos=True)
    texts = run(mini, free, drafter)
    stops = tuple({o.token_ids[2] for o in texts})
    for at_least in (0, 10):
        params = replace(free, stop_token_ids=stops, min_tokens=at_least)
        lengths = [len(o.token_ids) for o in run(mini, params, drafter)]
        assert min(lengths) >= max(1, at_least)
        assert (max(lengths) <= 3) == (at_least == 0)
    word = texts[0].text[1:4]
    early = run(mini, replace(free, stop=(word,)), drafter)[0]
    late = run(mini, replace(free, stop=(word,), min_tokens=12), drafter)[0]
    assert len(early.token_ids) < 12 < len(late.token_ids)
    assert late.token_ids == texts[0].token_ids[: len(late.token_ids)]


def test_samples_of_one_prompt(mini: LLM) -> None:
    params = SamplingParams(temperature=1.0, seed=4, n=3, max_tokens=12)
    outputs = mini.generate(PROMPTS[:2], params)
    assert [o.choice for o in outputs] == [0, 1, 2, 0, 1, 2]
    texts = [o.token_ids for o in outputs]
    assert len(set(texts)) == 6
    first = mini.generate(PROMPTS[:1], replace(params, n=1))[0]
    assert first.token_ids == texts[0]
    plain = mini.generate(PROMPTS[:2], params, speculation=PLAIN)
    assert [o.token_ids for o in plain] == texts
    with pytest.raises(RequestError, match=r"one sample, not n = 3; use generate"):
        mini.stream(PROMPTS[0], params)


@pytest.mark.parametrize("processed", [False, True])
def test_logprobs_are_the_targets(mini: LLM, processed: bool) -> None:
    """One entry a committed token, the model's own or the sampled law's, drafted or not."""
    params = SamplingParams(
        temperature=0.7, top_k=4, seed=2, max_tokens=12, logprobs=3, processed_logprobs=processed
    )
    output = run(mini, params, "model")[0]
    assert output.logprobs is not None
    assert [entry.token for entry in output.logprobs] == list(output.token_ids)
    prompt = mini.encode(PROMPTS[0])
    for at, entry in enumerate(output.logprobs):
        logits = next_logits(mini.model, [*prompt, *output.token_ids[:at]]).double()
        if processed:
            kept = logits.topk(4).indices
            logits = torch.full_like(logits, -torch.inf).index_copy(0, kept, logits[kept] / 0.7)
        expected = torch.log_softmax(logits, -1)
        assert entry.logprob == pytest.approx(float(expected[entry.token]), abs=1e-9)
        assert [i for i, _ in entry.top] == expected.topk(3).indices.tolist()
        assert [s for _, s in entry.top] == pytest.approx(expected.topk(3).values.tolist())
        assert entry.rank == int((expected > expected[entry.token]).sum()) + 1


def test_a_stop_cuts_ids_and_logprobs_alike(mini: LLM) -> None:
    free = SamplingParams(temperature=0, max_tokens=40, logprobs=0)
    for drafter in (None, "model"):
        text = run(mini, free, drafter)[0].text
        output = run(mini, replace(free, stop=(text[20:24],)), drafter)[0]
        assert output.logprobs is not None
        assert [entry.token for entry in output.logprobs] == list(output.token_ids)
        assert all(entry.top == () for entry in output.logprobs)
        assert len(output.token_ids) < 40


def test_deltas_carry_the_logprobs(mini: LLM) -> None:
    with mini.stream(PROMPTS[0], SamplingParams(temperature=0, max_tokens=20, logprobs=1)) as s:
        told = [entry for delta in s for entry in delta.logprobs]
    assert s.output is not None
    assert tuple(told) == s.output.logprobs


def test_logprobs_of_the_prompt(build: Callable[..., LLM]) -> None:
    """Of every token but the first, whatever the chunks and whatever the cache holds."""
    llm = build(max_rows=16)
    ids = llm.encode(PROMPTS[0])
    llm.generate([ids], SamplingParams(max_tokens=1))
    output = llm.generate([ids], SamplingParams(temperature=0, max_tokens=9, prompt_logprobs=2))[0]
    told = output.prompt_logprobs
    assert told is not None
    assert told[0] is None
    assert len(told) == len(ids) > 16
    for at, entry in enumerate(told[1:], start=1):
        assert entry is not None
        expected = torch.log_softmax(next_logits(llm.model, ids[:at]).double(), -1)
        assert (entry.token, len(entry.top)) == (ids[at], 2)
        assert entry.logprob == float(expected[ids[at]])
    assert output.logprobs is None
    assert output.cached_tokens == 0


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"logit_bias": {10**6: 1.0}}, "logit_bias names the id 1000000, not in 0 .. "),
        ({"allowed_token_ids": (-1,)}, "allowed_token_ids names the id -1"),
        (
            {"allowed_token_ids": (1,) * 9000},
            "allowed_token_ids has 9000 ids, but the model 4096; name each id once.",
        ),
        ({"stop_token_ids": (10**6,)}, "stop_token_ids names the id 1000000"),
        ({"thinking_budget": 5}, "thinking_budget needs a model with the tokens <think>"),
    ],
)
def test_what_the_model_cannot_do_is_refused(
    mini: LLM, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(RequestError, match=complaint):
        mini.generate(PROMPTS[0], SamplingParams(**settings))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"presence_penalty": 2.1}, r"presence_penalty must be in \[-2, 2\], not 2.1"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty must be in"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be > 0"),
        ({"typical_p": 0.0}, "typical_p must be in"),
        ({"logit_bias": {1: float("inf")}}, r"logit_bias must be of numbers in \[-1000, 1000\]"),
        ({"logit_bias": {271: 1e300}}, r"logit_bias must be .*, not \{271: 1e\+300\}"),
        ({"logit_bias": {271: -1000.5}}, "logit_bias must be of numbers in"),
        ({"bad_words": ("a", "")}, "bad_words must be of non-empty strings"),
        ({"min_tokens": -1}, "min_tokens must be >= 0"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens 9 is more than max_tokens 8"),
        ({"n": 0}, "n must be >= 1"),
        ({"logprobs": -1}, "logprobs must be >= 0"),
        ({"prompt_logprobs": -2}, "prompt_logprobs must be >= 0"),
        ({"thinking_budget": -1}, "thinking_budget must be >= 0"),
        (
            {"prompt_logprobs": 0, "processed_logprobs": True},
            "prompt_logprobs cannot be combined with processed_logprobs, .*; leave one of them out",
        ),
    ],
)
def test_values_out_of_range(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        SamplingParams(**settings)
