"""Speculation request by request: off, by drafter, k and rule; who wrote which token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import PROMPTS
from tests.live_server import Live

COMPLETIONS = "/v1/completions"
GREEDY = {"temperature": 0, "max_tokens": 24}
SEEDED = {"temperature": 0.9, "seed": 6, "max_tokens": 24}
CHOICES: list[dict[str, Any]] = [
    {},
    {"enabled": False},
    {"drafter": "model"},
    {"drafter": "ngram", "k": 3},
    {"drafter": "suffix", "k": 8},
    {"drafter": "none"},
    {"k": 0},
    {"k": 7},
]


def text_of(reply: dict[str, Any]) -> str:
    return str(reply["choices"][0]["text"])


@pytest.mark.parametrize("settings", [GREEDY, SEEDED], ids=["greedy", "coupled"])
def test_per_request_toggle(server: Live, settings: dict[str, Any]) -> None:
    """sglang 30263 and others: a switch for each request, which changes no text."""
    asked = [(prompt, choice) for prompt in PROMPTS[:3] for choice in CHOICES]

    def post(case: tuple[str, dict[str, Any]]) -> str:
        prompt, choice = case
        return text_of(server.post(COMPLETIONS, prompt=prompt, speculation=choice, **settings))

    with ThreadPoolExecutor(16) as pool:
        texts = [*pool.map(post, asked)]
    plain = {p: post((p, {"enabled": False})) for p in PROMPTS[:3]}
    assert texts == [plain[prompt] for prompt, _ in asked]
    server.settled()


def counters(server: Live, **body: Any) -> dict[str, Any]:
    reply = server.post(COMPLETIONS, **{"prompt": PROMPTS[0], **GREEDY, **body})
    told: dict[str, Any] = reply["usage"]["speculation"]
    return told


def test_usage_tells_what_was_done(server: Live) -> None:
    off = counters(server, speculation={"enabled": False})
    assert (off["drafter"], off["proposed"], off["steps"]) == ("none", 0, 23)
    model = counters(server, speculation={"drafter": "model", "k": 3})
    assert (model["drafter"], model["rule"]) == ("model", "greedy")
    assert model["accepted"] > 0
    assert model["committed"] == 23
    assert len(model["per_position"]) == 3
    rule = counters(server, temperature=1, speculation={"rule": "token"})
    assert rule["rule"] == "token"


def test_counters_of_several_outputs_add_up(server: Live) -> None:
    each = [counters(server, prompt=prompt) for prompt in PROMPTS[:2]]
    both = counters(server, prompt=[*PROMPTS[:2]])
    for name in ("steps", "proposed", "accepted", "committed"):
        assert both[name] == sum(told[name] for told in each)


def test_predicted_outputs(server: Live) -> None:
    """vLLM 23276: OpenAI's prediction, and how many of its tokens came true."""
    plain = server.post(COMPLETIONS, prompt=PROMPTS[0], **GREEDY)
    guess = {"type": "content", "content": text_of(plain)}
    reply = server.post(COMPLETIONS, prompt=PROMPTS[0], prediction=guess, **GREEDY)
    assert text_of(reply) == text_of(plain)
    assert reply["usage"]["speculation"]["drafter"] == "prediction"
    details = reply["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] >= 16
    wrong = {"type": "content", "content": [{"type": "text", "text": "zebra " * 5}]}
    reply = server.post(COMPLETIONS, prompt=PROMPTS[0], prediction=wrong, **GREEDY)
    details = reply["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] == 0
    assert details["rejected_prediction_tokens"] >= 5
    assert text_of(reply) == text_of(plain)


@pytest.mark.parametrize(
    ("speculation", "message"),
    [
        ({"drafter": "medusa"}, "'medusa' is not loaded; choose of: model, ngram, suffix, none."),
        ({"drafter": "/etc/passwd"}, "is not loaded"),
        ({"drafter": "model:mini-draft"}, "is not loaded"),
        ({"drafter": "ngram:k=3"}, "is not loaded"),
        ({"k": -1}, "greater than or equal to 0"),
        ({"k": "many"}, "'auto'"),
        ({"rule": "typical"}, "Unknown"),
        ({"enabled": False, "k": 2}, "enabled false takes no drafter, k or rule"),
        ({"length": 2}, "'speculation.length' is not supported"),
    ],
)
def test_refusals(server: Live, speculation: dict[str, Any], message: str) -> None:
    error = server.refused(COMPLETIONS, prompt="x", speculation=speculation)
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"


def test_a_drafter_that_reads_no_prediction(server: Live) -> None:
    guess = {"type": "content", "content": "x"}
    error = server.refused(
        COMPLETIONS, prompt="x", prediction=guess, speculation={"drafter": "ngram"}
    )
    assert "does not read a prediction" in error["message"]


def test_stream_token_by_token_and_token_provenance(server: Live) -> None:
    """vLLM 45678, lms 172: an event for each token, and which of them were drafted."""
    asked: dict[str, Any] = {"prompt": PROMPTS[0], "speculation": {"k": 4}, **GREEDY}
    whole = server.post(COMPLETIONS, **asked)
    events = server.events(COMPLETIONS, token_events=True, **asked)
    told = [event["choices"][0]["tokens"] for event in events[:-1]]
    assert [len(tokens) for tokens in told] == [1] * 24
    tokens = [token for (token,) in told]
    assert "".join(token["text"] for token in tokens) == text_of(whole)
    drafted = [token["depth"] for token in tokens if token["drafter"] == "model"]
    assert len(drafted) == whole["usage"]["speculation"]["accepted"]
    assert {1, 2, 3} <= set(drafted) <= {1, 2, 3, 4}
    assert {token["depth"] for token in tokens if token["drafter"] is None} == {0}
    chat = server.events(
        "/v1/chat/completions",
        messages=[{"role": "user", "content": "x"}],
        token_events=True,
        **GREEDY,
    )
    assert sum("tokens" in event["choices"][0] for event in chat) == 24
    plain = server.events(COMPLETIONS, **asked)
    assert len(plain) < 24
    assert not any("tokens" in event["choices"][0] for event in plain)


def test_usage_tells_what_the_controller_expected(server: Live) -> None:
    """A ratio where it decides; 1 where nothing may be drafted; null where all had pinned k."""
    assert counters(server, speculation={"k": "auto"})["estimated_speedup"] > 0
    assert counters(server, speculation={"enabled": False})["estimated_speedup"] == 1.0
    assert server.metrics()["paceline_estimated_speedup"] == 1.0
    assert counters(server, speculation={"k": 3})["estimated_speedup"] is None
    events = server.events(
        COMPLETIONS,
        prompt=PROMPTS[0],
        stream_options={"include_usage": True},
        speculation={"enabled": False},
        **GREEDY,
    )
    assert events[-1]["usage"]["speculation"]["estimated_speedup"] == 1.0
