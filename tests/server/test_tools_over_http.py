"""Tools: calls as OpenAI's client reads them, streamed and whole, held to their schemas."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from paceline.engine import LLM
from paceline.errors import RequestError
from paceline.server.schemas import ChatRequest
from paceline.server.tools import call_grammar
from tests.live_server import Live

CHAT = "/v1/chat/completions"


def tool(name: str, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    schema = {**parameters, "type": "object", "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


SET = tool("set", {"properties": {"size": {"enum": [1, 2]}}, "required": ["size"]})
GET = tool(
    "get",
    {
        "properties": {"key": {"$ref": "#/$defs/key"}},
        "required": ["key"],
        "$defs": {"key": {"enum": ["a", "b"]}},
    },
    strict=True,
)
NO_SCHEMA = tool("x", {"properties": {"a": {"type": "nope"}}})
ASKED: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [SET, GET],
    "temperature": 1,
    "seed": 1,
    "max_tokens": 80,
}


def call_text(name: str, **arguments: Any) -> str:
    """A call as a model writes it."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def check(call: dict[str, Any]) -> None:
    function = call["function"]
    arguments = json.loads(function["arguments"])
    allowed = {"set": [{"size": 1}, {"size": 2}], "get": [{"key": "a"}, {"key": "b"}]}
    assert arguments in allowed[function["name"]]
    assert call["type"] == "function"


def test_a_named_tool_is_called_once(server: Live) -> None:
    choice = {"type": "function", "function": {"name": "get"}}
    reply = server.post(CHAT, **ASKED, tool_choice=choice)["choices"][0]
    (call,) = reply["message"]["tool_calls"]
    check(call)
    assert call["function"]["name"] == "get"
    assert (reply["finish_reason"], reply["message"]["content"]) == ("tool_calls", None)


def test_required_without_parallel_is_one_call(server: Live) -> None:
    reply = server.post(CHAT, **ASKED, tool_choice="required", parallel_tool_calls=False)
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    check(call)


def test_of_free_text_without_parallel_the_first_call_is_given(server: Live) -> None:
    """It was streamed and given with all its calls."""
    written = [call_text("set", size=1), call_text("set", size=2)]
    asked = {
        **ASKED,
        "tools": [SET],
        "structured_outputs": {"choice": ["\n".join(written)]},
        "max_tokens": 200,
    }
    both = server.post(CHAT, **asked)["choices"][0]["message"]
    assert [c["function"]["arguments"] for c in both["tool_calls"]] == [
        '{"size": 1}',
        '{"size": 2}',
    ]
    asked["parallel_tool_calls"] = False
    choice = server.post(CHAT, **asked)["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"size": 1}'
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    deltas = [event["choices"][0]["delta"] for event in server.events(CHAT, **asked)[:-1]]
    (told,) = [one for delta in deltas for one in delta.get("tool_calls", ())]
    assert told["function"] == call["function"]
    assert "".join(delta.get("content") or "" for delta in deltas) == ""


def test_tool_stream_boundary(server: Live) -> None:
    """vLLM 41967: of two tools in steps of several tokens the first one's arguments were lost."""
    asked = {**ASKED, "tool_choice": "required", "speculation": {"k": 8}}
    whole = server.post(CHAT, **asked)["choices"][0]
    events = server.events(CHAT, **asked)
    calls = [c for e in events[:-1] for c in e["choices"][0]["delta"].get("tool_calls", ())]
    assert [call.pop("index") for call in calls] == [*range(len(calls))]
    assert len(calls) >= 2
    for call in calls:
        check(call)
    assert len({call.pop("id") for call in calls}) == len(calls)
    assert calls == [
        {key: value for key, value in call.items() if key != "id"}
        for call in whole["message"]["tool_calls"]
    ]
    text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events[:-1])
    assert text == (whole["message"]["content"] or "")


def test_the_client_reads_calls(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "mini", **ASKED, "tool_choice": "required"}
    calls: dict[int, str] = {}
    for chunk in client.chat.completions.create(**asked, stream=True):
        for call in chunk.choices[0].delta.tool_calls or ():
            assert call.function is not None
            calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
    (choice,) = client.chat.completions.create(**asked).choices
    told = [c.function.arguments for c in choice.message.tool_calls or () if c.type == "function"]
    assert [*calls.values()] == told


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("No call < here <tool_ at all", True),
        ('So:\n<tool_call>\n{"name": "set", "arguments": {"size": 1}}\n</tool_call>', True),
        ('<tool_call>\n{"name": "get", "arguments": {"key": "a"}}\n</tool_call> and so', True),
        ('<tool_call>\n{"name": "get", "arguments": {"key": "c"}}\n</tool_call>', False),
        ("A <tool_call> of another kind", False),
    ],
)
def test_strict_tools_bind_calls_and_leave_text_free(mini: LLM, text: str, allowed: bool) -> None:
    grammar = call_grammar(ChatRequest.model_validate(ASKED))
    assert grammar is not None
    matcher = mini.engine._grammars.compile(grammar).matcher()
    try:
        matcher.advance(mini.tokenizer.encode(text))
        ends = any(matcher.allows((), eos) for eos in mini.model.spec.eos_ids)
    except RequestError:
        ends = False
    assert ends is allowed


def test_none_offers_no_tool(server: Live) -> None:
    with_none = server.post(CHAT, **ASKED, tool_choice="none")
    bare = {key: value for key, value in ASKED.items() if key != "tools"}
    assert with_none["choices"] == server.post(CHAT, **bare)["choices"]


def test_calls_and_their_results_go_into_the_template(server: Live) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "set", "arguments": '{"size": 1}'}}
    messages = [
        *ASKED["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    assert server.post(CHAT, **{**ASKED, "messages": messages})["choices"][0]["message"]["content"]
    call["function"]["arguments"] = "{"  # type: ignore[index]
    error = server.refused(CHAT, **{**ASKED, "messages": messages})
    assert "are not JSON" in error["message"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "put"}}}, "names 'put'"),
        (
            {"tool_choice": "required", "response_format": {"type": "json_object"}},
            "cannot be combined with tools",
        ),
        ({"tools": [{"type": "retrieval"}]}, "tools.0.type"),
        ({"tools": [tool("two words", {})]}, "tools.0.function.name"),
        (
            {
                "tools": [tool("x", {"properties": {"a": {"type": "nope"}}})],
                "tool_choice": "required",
            },
            "cannot be used",
        ),
    ],
)
def test_refusals_of_tools(server: Live, more: dict[str, Any], message: str) -> None:
    assert message in server.refused(CHAT, **{**ASKED, **more})["message"]
