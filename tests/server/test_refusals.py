"""What is not served is refused by name, in OpenAI's form; nothing is ignored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Live

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "prompt", "Field required"),
        ({"prompt": ""}, None, "The prompt is empty"),
        ({"prompt": []}, "prompt", "at least 1"),
        ({"prompt": "x", "suffix": "y"}, "suffix", "Input should be ''"),
        ({"prompt": "x", "best_of": 3}, None, "best_of other than n"),
        ({"prompt": "x", "use_beam_search": True}, "use_beam_search", "is not supported"),
        ({"prompt": "x", "temperature": -1}, "temperature", "must be finite and >= 0"),
        ({"prompt": "x", "temperature": "1"}, "temperature", "valid number"),
        ({"prompt": "x", "top_p": 0}, "top_p", "must be in (0, 1]"),
        ({"prompt": "x", "presence_penalty": 3}, "presence_penalty", "must be in [-2, 2]"),
        ({"prompt": "x", "seed": -1}, "seed", "must be in [0, 2**64)"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"prompt": "x", "n": 17}, "n", "at most 16"),
        ({"prompt": ["x"] * 9, "n": 2}, "n", "at most 16"),
        ({"prompt": "x", "logprobs": 21}, "logprobs", "less than or equal to 20"),
        (
            {"prompt": "x", "echo": True, "logprobs": 0, "processed_logprobs": True},
            None,
            "echo with logprobs cannot be combined with processed_logprobs",
        ),
        ({"prompt": "x", "logit_bias": {"-5": 1}}, "logit_bias", "token ids"),
        ({"prompt": "x", "logit_bias": {"99999": 1}}, "logit_bias", "names the id 99999"),
        ({"prompt": "x", "allowed_token_ids": []}, "allowed_token_ids", "at least 1"),
        ({"prompt": [999999]}, None, "A prompt id is not in"),
        ({"prompt": "x" * 9000}, None, "but the context holds 1024"),
        (
            {"prompt": "x", "prediction": {"type": "content", "content": " x" * 1025}},
            "prediction",
            "prediction has 1025 tokens, but the context holds 1024; shorten it to 1024 or fewer.",
        ),
        ({"prompt": "x", "stop": [""]}, "stop", "must be a non-empty string"),
        ({"prompt": "x", "stream_options": {"include_usage": True}}, None, "needs stream true"),
        ({"prompt": "x", "thinking_budget": 3}, "thinking_budget", "needs a model with"),
        ({"prompt": "x", "response_format": {"type": "xml"}}, "response_format", "'json_object'"),
        (
            {"prompt": "x", "structured_outputs": {"regex": "(["}},
            None,
            "The regex cannot be used",
        ),
        (
            {"prompt": "x", "ignore_eos": True, "structured_outputs": {"regex": "a"}},
            "ignore_eos",
            "cannot be combined",
        ),
    ],
)
def test_completion(server: Live, body: dict[str, Any], param: str | None, message: str) -> None:
    error = server.refused(COMPLETIONS, **body)
    assert message in error["message"]
    assert (error["param"] or "").split(".")[0] == (param or "")
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"messages": []}, "at least 1"),
        ({"messages": [{"role": "user"}]}, "a message needs content"),
        ({"messages": [{"role": "judge", "content": "x"}]}, "'system'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "messages.0.content.0.type: Input should be 'text'",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id is for the role tool"),
        ({"messages": HELLO, "top_logprobs": 2}, "top_logprobs needs logprobs true"),
        ({"messages": HELLO, "max_tokens": 3, "max_completion_tokens": 4}, "differ"),
        ({"messages": HELLO, "tool_choice": "auto"}, "tool_choice needs tools"),
        ({"messages": HELLO, "reasoning_effort": "low"}, "'reasoning_effort' is not supported"),
        ({"messages": HELLO, "modalities": ["audio"]}, "'modalities' is not supported"),
        ({"messages": HELLO, "chat_template_kwargs": {"messages": []}}, "cannot set 'messages'"),
    ],
)
def test_chat(server: Live, body: dict[str, Any], message: str) -> None:
    assert message in server.refused(CHAT, **body)["message"]


def test_a_refusal_before_a_stream_has_its_own_status(server: Live) -> None:
    error = server.refused(COMPLETIONS, prompt="x" * 9000, stream=True)
    assert "but the context holds" in error["message"]


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"{", {}, 400, "The body is not JSON"),
        (b"\xff", {}, 400, "The body is not JSON"),
        (b"[]", {}, 400, "The body"),
        (b'{"prompt": "\\ud800"}', {}, 400, "The body is not JSON"),
        (b'{"prompt": "x", "top_p": NaN}', {}, 400, "top_p"),
        (b"[" * 100_000, {}, 400, "The body is not JSON"),
        (b'{"prompt": "x"}', {"content-type": "text/plain"}, 415, "application/json"),
        (b'{"prompt": "%s"}' % (b"x" * (5 << 20)), {}, 413, "larger than"),
    ],
)
def test_bodies(
    server: Live, content: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    headers = {"content-type": "application/json", **headers}
    reply = server.http.post(COMPLETIONS, content=content, headers=headers)
    assert reply.status_code == status
    assert message in reply.json()["error"]["message"]


def test_a_body_without_a_length_is_bounded_too(server: Live) -> None:
    parts = (b"x" * (1 << 20) for _ in range(5))
    headers = {"content-type": "application/json"}
    reply = server.http.post(COMPLETIONS, content=parts, headers=headers)
    assert reply.status_code == 413


def test_paths_and_methods(server: Live) -> None:
    assert server.http.get("/v1/nothing").status_code == 404
    reply = server.http.get(COMPLETIONS)
    assert reply.status_code == 405
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_an_output_that_cannot_go_on_says_why(server: Live) -> None:
    error = server.refused(
        COMPLETIONS, prompt="x", allowed_token_ids=[300], logit_bias={"300": -1000},
        bad_words=[server.llm.tokenizer.decode([300])], ignore_eos=True,
    )  # fmt: skip
    assert error["code"] == "cannot_continue"
    server.settled()


def test_ids_without_a_token_have_no_text(server: Live) -> None:
    assert "A token is not in 0 .." in server.refused("/detokenize", tokens=[5, 99999])["message"]
