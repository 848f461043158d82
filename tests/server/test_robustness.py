"""Overload, clients that go, faults of the engine, time-outs: the server lives, nothing leaks."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from paceline.engine import LLM
from paceline.server.failures import ApiError
from paceline.server.gate import Gate
from paceline.server.settings import Limits
from paceline.tree import NO_DRAFT
from tests.conftest import PROMPTS
from tests.live_server import Live, live

COMPLETIONS = "/v1/completions"
ENDLESS: dict[str, Any] = {
    "prompt": PROMPTS[0], "temperature": 0, "max_tokens": 900, "ignore_eos": True, "stream": True,
}  # fmt: skip
SHORT: dict[str, Any] = {"prompt": PROMPTS[0], "temperature": 0, "max_tokens": 8}


@pytest.fixture
def aborted(server: Live, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Wait until the server has aborted a batch; then nothing may be left."""
    llm = server.app.state.service.llm
    happened, abort = threading.Event(), llm.abort

    def tell(batch: object) -> None:
        abort(batch)
        happened.set()

    monkeypatch.setattr(llm, "abort", tell)

    def wait() -> None:
        assert happened.wait(30)
        assert asyncio.run(llm.call(lambda: server.llm.engine.has_work)) is False
        server.llm.engine.pool.check_idle()

    return wait


def test_cancel_frees_of_a_stream(server: Live, aborted: Callable[[], None]) -> None:
    """am17an 20: a slot stayed busy for hours after its client had gone."""
    with server.http.stream("POST", COMPLETIONS, json={**ENDLESS, "n": 3}) as reply:
        next(reply.iter_lines())
    aborted()


def test_cancel_frees_of_a_whole_reply(server: Live, aborted: Callable[[], None]) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    body = b'{"prompt": "x", "temperature": 0, "max_tokens": 900, "ignore_eos": true}'
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    steps = threading.Event()
    server.llm.engine.listeners.append(lambda stats: steps.set())
    with socket.create_connection((host, int(port.rstrip("/")))) as client:
        client.sendall(head.encode() + body)
        assert steps.wait(30)
    server.llm.engine.listeners.pop()
    aborted()


def test_cancel_frees_of_a_client_that_is_killed(server: Live, aborted: Callable[[], None]) -> None:
    """kill -9 in mid-stream: no goodbye but the kernel's."""
    body = json.dumps({**ENDLESS, "n": 3})
    code = "import sys, httpx\nwith httpx.stream('POST', sys.argv[1], content=sys.argv[2],"
    code += " headers={'content-type': 'application/json'}) as reply:\n"
    code += " for line in reply.iter_lines(): print(line, flush=True)"
    client = [sys.executable, "-c", code, f"{server.url.rstrip('/')}{COMPLETIONS}", body]
    with subprocess.Popen(client, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("data: {")
        process.kill()
    aborted()


def test_more_than_the_server_holds_is_told_to_come_again(served_llm: LLM) -> None:
    with live(served_llm, limits=Limits(max_queue=0)) as server:
        with server.http.stream("POST", COMPLETIONS, json={**ENDLESS, "n": 16}) as reply:
            lines = reply.iter_lines()  # which would end the stream when it is forgotten
            next(lines)
            refused = server.http.post(COMPLETIONS, json=SHORT)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["code"] == "overloaded"
            assert server.http.get("/health").status_code == 200
        name = 'paceline_http_replies_total{path="/v1/completions",status="429"}'
        assert server.metrics()[name] == 1


def test_the_gate_counts_who_is_inside() -> None:
    gate = Gate(at_once=2, max_queue=3)
    gate.enter(4)
    with pytest.raises(ApiError) as full:
        gate.enter(2)
    assert (full.value.status, full.value.headers) == (429, {"Retry-After": "1"})
    gate.leave(4, seconds=41.0)
    gate.enter(5)
    with pytest.raises(ApiError) as full:
        gate.enter(2)
    assert full.value.headers == {"Retry-After": "5"}
    with pytest.raises(ApiError) as never:
        gate.enter(6)
    assert never.value.status == 400


def test_stream_terminal_event_when_a_pass_fails_its_requests_and_the_server_lives(
    server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server.post(COMPLETIONS, **SHORT)["choices"]
    drafter, calls = server.llm.engine._drafters["ngram"].live, list[int]()

    def fail_later(self: Any, contexts: Any, budgets: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise ZeroDivisionError("a drafter's fault")
        return [NO_DRAFT for _ in contexts]

    asked = {**ENDLESS, "speculation": {"drafter": "ngram"}}
    with monkeypatch.context() as patch:
        patch.setattr(type(drafter), "propose", fail_later)
        events = server.events(COMPLETIONS, **asked)  # which wants [DONE] at the end
        assert events[-1]["error"]["code"] == "engine_error"
        assert "a drafter's fault" in events[-1]["error"]["message"]
        assert server.refused(COMPLETIONS, 500, **asked | {"stream": False})["code"]
    assert server.post(COMPLETIONS, **SHORT)["choices"] == before
    server.settled()


def test_a_reply_that_takes_too_long_is_ended(served_llm: LLM) -> None:
    with live(served_llm, limits=Limits(request_timeout_s=1e-6)) as server:
        error = server.refused(COMPLETIONS, 504, **SHORT)
        assert error["code"] == "timeout"
        server.settled()


def test_a_body_that_does_not_come_is_not_waited_for(served_llm: LLM) -> None:
    with live(served_llm, limits=Limits(body_timeout_s=1e-3)) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port.rstrip("/")))) as client:
            client.sendall(
                f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
                "Content-Type: application/json\r\n\r\n".encode()
            )
            assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_grammar_invalid_draft_and_bad_requests(server: Live) -> None:
    """vLLM 27969 and others: one bad request, or a grammar, brought the engine down."""
    good = {**SHORT, "max_tokens": 16}
    expected = server.post(COMPLETIONS, **good)["choices"][0]["text"]
    bad: list[dict[str, Any]] = [
        {"prompt": "x" * 9000},
        {"prompt": "x", "structured_outputs": {"grammar": "start: ("}},
        {"prompt": "x", "temperature": -1},
    ]
    grammar = {**SHORT, "response_format": {"type": "json_object"}, "speculation": {"k": 8}}

    def post(index: int) -> tuple[int, str]:
        body = (good, bad[index % 3], grammar)[index % 3 if index % 2 else 0]
        reply = server.http.post(COMPLETIONS, json=body)
        text = reply.json()["choices"][0]["text"] if reply.status_code == 200 else ""
        return reply.status_code, text if body is good else ""

    with ThreadPoolExecutor(12) as pool:
        replies = [*pool.map(post, range(36))]
    assert {status for status, _ in replies} == {200, 400}
    assert {text for _, text in replies} == {expected, ""}
    server.settled()
