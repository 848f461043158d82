"""One address before replicas, without Ray: replicas here are objects that can be made to die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from paceline.engine import LLM
from paceline.engine.options import LLMOptions
from paceline.errors import EngineError
from paceline.server.front import LIVES, LostError, affinity, beginning, build_front, together
from paceline.server.replica import Replica, Whole
from paceline.server.settings import Limits, ServerConfig
from paceline.types import SamplingParams
from tests.conftest import PROMPTS

COMPLETIONS = "/v1/completions"
ASKED: dict[str, Any] = {"prompt": PROMPTS[0], "temperature": 0, "max_tokens": 24}
CONFIG = ServerConfig(model_name="mini", limits=Limits(max_queue=1, max_body_bytes=2000))


LOOP = asyncio.Runner()
"""In which the replica lives."""


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    with LOOP:
        yield Replica("mini", ("model:mini-draft",), LLMOptions(threads=1), CONFIG)


class Mortal:
    """A replica that dies over the first requests, each after so many messages."""

    def __init__(self, replica: Replica, *deaths: int) -> None:
        self.replica, self.deaths, self.keys = replica, list(deaths), list[str]()

    async def stream(
        self, key: str, scope: Mapping[str, Any], body: bytes
    ) -> AsyncGenerator[Message, None]:
        self.keys.append(key)
        left = self.deaths.pop(0) if self.deaths else -1
        async for message in self.replica.stream(scope, body):
            if not left:
                raise LostError
            left -= 1
            yield message

    async def everywhere(self, scope: Mapping[str, Any]) -> list[Whole]:
        return [await self.replica.whole(scope)] * (not self.deaths)


def ask(front: Any, path: str = COMPLETIONS, **body: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(front)
        async with httpx.AsyncClient(transport=transport, base_url="http://front") as http:
            return await (http.post(path, json=body) if body else http.get(path))

    return LOOP.run(run())


def front_of(replicas: Mortal) -> Any:
    return build_front(replicas, 1, CONFIG)


@pytest.fixture
def expected(mini: LLM) -> str:
    return mini.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=24))[0].text


def test_a_reply_is_the_replicas_own(replica: Replica, expected: str) -> None:
    front = front_of(Mortal(replica))
    reply = ask(front, **ASKED)
    assert reply.json()["choices"][0]["text"] == expected
    assert reply.headers["x-request-id"]
    assert ask(front, **ASKED, no_such_field=1).status_code == 400
    assert ask(front, "/v1/models").json()["data"][0]["id"] == "mini"
    assert ask(front, "/nowhere").status_code == 404


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_was_not_answered_yet_goes_to_another(
    replica: Replica, expected: str, stream: bool
) -> None:
    mortal = Mortal(replica, 0, 0)
    reply = ask(front_of(mortal), **ASKED, stream=stream)
    assert reply.status_code == 200
    if stream:
        *events, done = reply.text.removesuffix("\n\n").split("\n\n")
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        assert (text, done) == (expected, "data: [DONE]")
    else:
        assert reply.json()["choices"][0]["text"] == expected
    assert len(mortal.keys) == 3
    assert len(set(mortal.keys)) == 1


def test_a_stream_that_had_begun_ends_with_the_error(replica: Replica) -> None:
    reply = ask(front_of(Mortal(replica, 3)), **ASKED, stream=True)
    *events, failed, done = reply.text.removesuffix("\n\n").split("\n\n")
    assert len(events) == 2
    assert json.loads(failed.removeprefix("data: "))["error"]["code"] == "engine_error"
    assert done == "data: [DONE]"


def test_a_whole_reply_that_was_cut_off_comes_from_another(replica: Replica, expected: str) -> None:
    mortal = Mortal(replica, 1)
    reply = ask(front_of(mortal), **ASKED)
    assert reply.json()["choices"][0]["text"] == expected
    assert len(mortal.keys) == 2
    reply = ask(front_of(Mortal(replica, *[1] * LIVES)), **ASKED)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "no_replica")


def test_where_no_replica_answers_it_is_said(replica: Replica) -> None:
    front = front_of(Mortal(replica, *[0] * (LIVES + 1)))
    reply = ask(front, **ASKED)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "no_replica")
    assert front.state.gate.inside == 0
    assert ask(front, "/health").status_code == 503


def test_bounds_hold_before_a_replica_is_asked(replica: Replica) -> None:
    mortal = Mortal(replica)
    front = front_of(mortal)
    assert ask(front, prompt="x" * 2000).status_code == 413
    front.state.gate.enter(2)
    full = ask(front, **ASKED)
    assert (full.status_code, full.headers["retry-after"]) == (429, "1")
    assert ask(front, "/health").status_code == 200
    front.state.gate.closed = True
    assert ask(front, **ASKED).json()["error"]["code"] == "stopping"
    assert ask(front, "/health").status_code == 503
    assert mortal.keys == []


def test_a_client_that_goes_frees_the_replicas_blocks(replica: Replica) -> None:
    front = front_of(Mortal(replica))
    body = json.dumps({**ASKED, "max_tokens": 900, "ignore_eos": True, "stream": True}).encode()
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": COMPLETIONS, "headers": headers}
    scope |= {"query_string": b"", "root_path": ""}

    async def run() -> None:
        begun, parts = asyncio.Event(), [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            if parts:
                return parts.pop()
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            begun.set()

        await front(scope, receive, send)
        llm = replica._app.state.service.llm
        await llm.call(lambda: None)  # the abort came first
        assert await llm.call(lambda: llm.llm.engine.has_work) is False
        await llm.call(llm.llm.engine.pool.check_idle)

    LOOP.run(run())
    assert front.state.gate.inside == 0


def test_what_begins_alike_has_one_key() -> None:
    system = {"role": "system", "content": "You are brief."}
    turn = [system, {"role": "user", "content": "Why?"}]
    later = [*turn, {"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    other = [system, {"role": "user", "content": "How?"}]

    def key(owner: str = "", **body: Any) -> str:
        return affinity(Headers({"authorization": owner}), json.dumps(body).encode())

    assert key(messages=turn) == key(messages=later, temperature=0) != key(messages=other)
    assert key(messages=turn) != key("Bearer k", messages=turn)
    assert key(prompt="x" * 300) == key(prompt="x" * 300 + "y") != key(prompt="y" + "x" * 300)
    assert key(prompt=[1, 2]) != key(prompt=[2, 1])
    for spoilt in (b"", b"[1]", b"{", b"\xff", b"[" * 100_000):
        assert beginning(spoilt) == ""
    assert beginning(b'{"messages": [3]}') == "[3]"


def test_metrics_of_replicas_on_one_page() -> None:
    page = "# HELP a Of a.\n# TYPE a gauge\na {0}\n# HELP b Of b.\n# TYPE b counter\n"
    page += 'b{{x="1 2"}} {0}\n'
    assert together({"r": page.format(1), "s": page.format(2)}) == (
        '# HELP a Of a.\n# TYPE a gauge\na{replica="r"} 1\na{replica="s"} 2\n'
        '# HELP b Of b.\n# TYPE b counter\nb{replica="r",x="1 2"} 1\nb{replica="s",x="1 2"} 2\n'
    )


def test_the_page_of_metrics_names_the_replica(replica: Replica) -> None:
    front = front_of(Mortal(replica))
    lines = ask(front, "/metrics").text.splitlines()
    series = [line for line in lines if not line.startswith("#")]
    assert len(series) > 50
    assert all('{replica="' in line for line in series)


def test_a_replica_whose_engine_has_ended_is_not_well(replica: Replica) -> None:
    """The last test: the engine stays closed."""
    LOOP.run(replica.check_health())
    LOOP.run(asyncio.to_thread(replica._app.state.service.llm.close))
    with pytest.raises(EngineError, match="stopped"):
        LOOP.run(replica.check_health())
    assert ask(front_of(Mortal(replica)), "/health").status_code == 503
