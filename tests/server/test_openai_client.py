"""OpenAI's own client against a live server; every text is the one `LLM` writes."""

from __future__ import annotations

import json
import re
from typing import Any

import openai
import pytest

from paceline.engine import LLM
from paceline.models import render_chat
from paceline.types import Output, SamplingParams
from tests.conftest import PROMPTS
from tests.live_server import CHATML, Live

MESSAGES: list[Any] = [
    {"role": "system", "content": "Write Python."},
    {"role": "user", "content": [{"type": "text", "text": "Read "}, {"type": "text", "text": "a"}]},
]
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0, "max_tokens": 24},
    {"temperature": 0.8, "seed": 5, "max_tokens": 24, "top_p": 0.9},
    {"temperature": 1.2, "seed": 5, "max_tokens": 24, "presence_penalty": 1.0, "stop": ["self"]},
]
each_setting = pytest.mark.parametrize("settings", SETTINGS, ids=["greedy", "top-p", "stop"])


def chat_ids(llm: LLM) -> list[int]:
    told = [MESSAGES[0], {"role": "user", "content": "Read a"}]
    return llm.encode(render_chat(llm.tokenizer, told, template=CHATML), rendered=True)


def outputs(llm: LLM, prompt: Any, settings: dict[str, Any], **more: Any) -> list[Output]:
    return llm.generate([prompt], SamplingParams(**{**settings, **more}))


@each_setting
def test_completion(client: openai.OpenAI, mini: LLM, settings: dict[str, Any]) -> None:
    reply = client.completions.create(model="mini", prompt=PROMPTS[0], logprobs=2, **settings)
    (expected,) = outputs(mini, PROMPTS[0], settings, logprobs=2)
    (choice,) = reply.choices
    assert (choice.text, choice.finish_reason) == (expected.text, expected.finish_reason.value)
    assert choice.logprobs is not None
    assert choice.logprobs.token_logprobs == [e.logprob for e in expected.logprobs or ()]
    assert reply.usage is not None
    assert reply.usage.completion_tokens == len(expected.token_ids)
    assert reply.usage.prompt_tokens == expected.prompt_tokens


@each_setting
def test_stream_concat_equals_final(client: openai.OpenAI, settings: dict[str, Any]) -> None:
    """vLLM 30204: the last tokens of a stream were dropped."""
    asked: dict[str, Any] = {"model": "mini", "prompt": PROMPTS[1], "logprobs": 1, **settings}
    (whole,) = client.completions.create(**asked).choices
    text, tokens, values, offsets, reasons = "", [], [], [], []
    for chunk in client.completions.create(**asked, stream=True):
        (choice,) = chunk.choices
        text += choice.text
        reasons.append(choice.finish_reason)
        if choice.logprobs:
            tokens += choice.logprobs.tokens or []
            values += choice.logprobs.token_logprobs or []
            offsets += choice.logprobs.text_offset or []
    assert whole.logprobs is not None
    assert text == whole.text
    assert tokens == whole.logprobs.tokens
    assert values == whole.logprobs.token_logprobs
    assert offsets == whole.logprobs.text_offset
    assert [reason for reason in reasons if reason] == [whole.finish_reason]


@each_setting
def test_chat(client: openai.OpenAI, mini: LLM, settings: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "mini", "messages": MESSAGES, **settings}
    reply = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    (expected,) = outputs(mini, chat_ids(mini), settings, logprobs=2)
    (choice,) = reply.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == expected.text
    assert choice.finish_reason == expected.finish_reason.value
    assert choice.logprobs is not None
    entries = choice.logprobs.content or []
    assert [e.logprob for e in entries] == [e.logprob for e in expected.logprobs or ()]
    assert [len(e.top_logprobs) for e in entries] == [2] * len(expected.token_ids)


@each_setting
def test_stream_concat_equals_final_of_chat(
    client: openai.OpenAI, settings: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"model": "mini", "messages": MESSAGES, "logprobs": True, **settings}
    (whole,) = client.chat.completions.create(**asked).choices
    text, entries, roles = "", [], []
    for chunk in client.chat.completions.create(**asked, stream=True):
        (choice,) = chunk.choices
        text += choice.delta.content or ""
        roles += [choice.delta.role] if choice.delta.role else []
        entries += (choice.logprobs.content or []) if choice.logprobs else []
    assert whole.logprobs is not None
    assert text == whole.message.content
    assert entries == whole.logprobs.content
    assert roles == ["assistant"]
    assert choice.finish_reason == whole.finish_reason


def test_samples_and_prompts_have_their_own_index(client: openai.OpenAI, mini: LLM) -> None:
    settings = {"temperature": 1.0, "seed": 9, "max_tokens": 12}
    prompts = [PROMPTS[0], PROMPTS[2]]
    reply = client.completions.create(model="mini", prompt=prompts, n=2, **settings)
    expected = mini.generate(prompts, SamplingParams(n=2, **settings))
    assert [c.index for c in reply.choices] == [0, 1, 2, 3]
    assert [c.text for c in reply.choices] == [o.text for o in expected]
    texts = [""] * 4
    for chunk in client.completions.create(
        model="mini", prompt=prompts, n=2, stream=True, **settings
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [o.text for o in expected]
    assert len(set(texts)) == 4


def test_usage_comes_last_in_a_stream_that_asks_for_it(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "mini", "messages": MESSAGES, "temperature": 0}
    whole = client.chat.completions.create(**asked, max_tokens=9)
    chunks = [
        *client.chat.completions.create(
            **asked, max_tokens=9, stream=True, stream_options={"include_usage": True}
        )
    ]
    assert chunks[-1].choices == []
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 9
    plain = client.chat.completions.create(**asked, max_tokens=9, stream=True)
    assert all(chunk.choices for chunk in plain)


def test_echo_tells_the_prompt_and_what_the_model_thinks_of_it(
    client: openai.OpenAI, mini: LLM
) -> None:
    settings = {"temperature": 0, "max_tokens": 5}
    (expected,) = outputs(mini, PROMPTS[3], settings, prompt_logprobs=1, logprobs=1)
    asked: dict[str, Any] = {"model": "mini", "prompt": PROMPTS[3], "echo": True, **settings}
    (choice,) = client.completions.create(**asked, logprobs=1).choices
    assert choice.text == PROMPTS[3] + expected.text
    assert choice.logprobs is not None
    told = [e and e.logprob for e in expected.prompt_logprobs or ()]
    told += [e.logprob for e in expected.logprobs or ()]
    assert choice.logprobs.token_logprobs == told
    offsets, tokens = choice.logprobs.text_offset or [], choice.logprobs.tokens or []
    ends = [*offsets[1:], len(choice.text)]
    pieces = [choice.text[a:b] for a, b in zip(offsets, ends, strict=True)]
    assert [p for p in pieces if p] == [t for p, t in zip(pieces, tokens, strict=True) if p]
    streamed = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == choice.text


def test_json_schema_and_json_object(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"size": {"enum": [1, 2]}, "kind": {"enum": ["a", "b"]}},
        "required": ["size", "kind"],
        "additionalProperties": False,
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    asked: dict[str, Any] = {"model": "mini", "messages": MESSAGES, "temperature": 1, "seed": 1}
    compact = {"structured_outputs": {"json": schema, "disable_any_whitespace": True}}
    (choice,) = client.chat.completions.create(**asked, extra_body=compact).choices
    assert choice.finish_reason == "stop"
    found = json.loads(choice.message.content or "")
    assert found["size"] in (1, 2)
    assert found["kind"] in ("a", "b")
    for format_, start in ((form, r'\{\s*"size":'), ({"type": "json_object"}, r"\{")):
        reply = client.chat.completions.create(**asked, response_format=format_, max_tokens=40)
        assert re.match(start, reply.choices[0].message.content or "")


def test_models_and_tokens(client: openai.OpenAI, server: Live, mini: LLM) -> None:
    (model,) = client.models.list().data
    assert model.id == "mini"
    assert model.model_extra is not None
    assert model.model_extra["drafters"] == ["model", "ngram", "suffix", "none"]
    told = server.post("/tokenize", prompt="x = 1\n")
    assert told["tokens"] == mini.encode("x = 1\n")
    assert told["count"] == len(told["tokens"])
    assert server.post("/detokenize", tokens=told["tokens"])["prompt"].endswith("x = 1\n")
    chat = server.post("/tokenize", messages=[{"role": "user", "content": "hi"}])
    assert "hi" in server.post("/detokenize", tokens=chat["tokens"])["prompt"]
    assert server.http.get("/health").json() == {"status": "ok"}
    assert server.http.get("/version").json()["version"]


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="'gpt' is not served here; 'mini' is"):
        client.completions.create(model="gpt", prompt="x")
    with pytest.raises(openai.BadRequestError, match="'audio' is not supported") as caught:
        client.chat.completions.create(
            model="mini", messages=MESSAGES, extra_body={"audio": {"voice": "x"}}
        )
    assert caught.value.param == "audio"
