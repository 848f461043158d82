"""One address before several replicas: which of them gets a request, and what if it dies.

What begins alike goes to the same replica, whose prefix cache holds the beginning, as long as that
one has room. A request that was not answered yet when its replica died is sent to another.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from paceline.server.body import collect
from paceline.server.failures import ApiError
from paceline.server.gate import Gate
from paceline.server.replica import Whole
from paceline.server.reply import DONE, Gone, event, unless_gone
from paceline.server.settings import Limits, ServerConfig

PREFIX_CHARS = 256
"""Of a prompt; as much is worth finding in a cache."""
SENT = ("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string",
        "headers", "client", "server", "root_path")  # fmt: skip
"""What a replica is told of a request; the rest of a scope is this process's own."""


class LostError(Exception):
    """A replica died over a request."""


class Replicas(Protocol):
    """Those that can be asked."""

    def stream(
        self, key: str, scope: Mapping[str, Any], body: bytes
    ) -> AsyncGenerator[Message, None]:
        """The reply of one, the same one for a key if it has room; raises LostError.

        Closing it early ends the request.
        """
        ...

    async def everywhere(self, scope: Mapping[str, Any]) -> Sequence[Whole]:
        """The replies of all that live."""
        ...


def build_front(replicas: Replicas, at_once: int, config: ServerConfig) -> Starlette:
    """The application that hands requests on, of which `at_once` run; then come the queues."""
    front = Front(replicas, Gate(at_once, config.limits.max_queue), config.limits)
    app = Starlette(routes=[Route("/{path:path}", front)])
    app.state.gate = front.gate
    return app


class Front:
    """Questions about the server go to all replicas, everything else to one."""

    def __init__(self, replicas: Replicas, gate: Gate, limits: Limits) -> None:
        self.gate = gate
        self._replicas, self._limits = replicas, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; errors have OpenAI's form."""
        request = Request(scope, receive)
        try:
            if request.method == "GET":
                await (await self._ask_all(request))(scope, receive, send)
                return
            body = await collect(request, self._limits)
            self.gate.enter(1)
            began = time.perf_counter()
            try:
                await unless_gone(receive, self._relay(request, body, send))
            finally:
                self.gate.leave(1, time.perf_counter() - began)
        except ApiError as error:
            await error.response()(scope, receive, send)
        except Gone:
            pass

    async def _ask_all(self, request: Request) -> Response:
        if request.url.path == "/health":
            self.gate.check_open()
        replies = await self._replicas.everywhere(sent(request.scope))
        if not replies:
            raise none_up()
        first = min(replies, key=lambda reply: reply.status)
        body = first.body
        if request.url.path == "/metrics" and all(reply.status == 200 for reply in replies):
            body = together({reply.replica: reply.body.decode() for reply in replies}).encode()
        headers = {key.decode(): value.decode() for key, value in first.headers}
        headers.pop("content-length", None)
        return Response(body, first.status, headers)

    async def _relay(self, request: Request, body: bytes, send: Send) -> None:
        """Send one replica's reply; another's if that one dies before any of it was sent.

        A stream is sent as it comes, any other reply once it is whole.
        """
        key, scope = affinity(request.headers, body), sent(request.scope)
        for _ in range(LIVES):
            streams, held = False, list[Message]()
            try:
                async with aclosing(self._replicas.stream(key, scope, body)) as messages:
                    async for message in messages:
                        streams = streams or begins_stream(message)
                        if streams:
                            await send(message)
                        else:
                            held.append(message)
            except LostError:
                if streams:
                    await send(CUT_OFF)
                    await send(DONE)
                    return
            else:
                for message in held:
                    await send(message)
                return
        raise none_up()


LIVES = 3
"""Replicas that may die over a request before it is given up: it may be what kills them."""


CUT_OFF = event(ApiError(500, "The replica failed; send it again.", code="engine_error").body())
"""The last event of a stream whose replica died."""


def begins_stream(message: Message) -> bool:
    """Whether a reply's message says that events follow."""
    content_type = Headers(raw=message.get("headers", [])).get("content-type", "")
    return content_type.startswith("text/event-stream")


def sent(scope: Scope) -> dict[str, Any]:
    """The part of a scope that another process can read."""
    return {name: scope[name] for name in SENT if name in scope}


def none_up() -> ApiError:
    """The error where nobody can answer."""
    message = "No replica could answer; send the request again."
    return ApiError(503, message, code="no_replica", headers={"Retry-After": "1"})


def affinity(headers: Headers, body: bytes) -> str:
    """What requests have in common that should share a replica: their key and their beginning."""
    owner = headers.get("authorization", "")
    return hashlib.sha256(f"{owner}\n{beginning(body)}".encode()).hexdigest()


def beginning(body: bytes) -> str:
    """What a conversation keeps from turn to turn: up to its first question, or so much text."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(asked, dict):
        return ""
    messages = asked.get("messages")
    if not isinstance(messages, list):
        return json.dumps(asked.get("prompt"))[:PREFIX_CHARS]
    roles = [one.get("role") if isinstance(one, dict) else None for one in messages]
    question = roles.index("user") if "user" in roles else 0
    return json.dumps(messages[: question + 1])


def together(pages: Mapping[str, str]) -> str:
    """Prometheus pages as one, every series with the name of its replica for a label."""
    families = dict[str, list[str]]()
    for replica, page in pages.items():
        head = ""
        for line in page.splitlines():
            if line.startswith("# HELP "):
                head = line
                families.setdefault(head, [])
            elif line.startswith("#"):
                if not families[head]:
                    families[head].append(line)
            else:
                families[head].append(labelled(line, replica))
    return "".join(f"{head}\n" + "".join(f"{one}\n" for one in f) for head, f in families.items())


def labelled(line: str, replica: str) -> str:
    """A series with one more label."""
    name, value = line.rsplit(" ", 1)
    name, brace, labels = name.partition("{")
    return f'{name}{{replica="{replica}"{"," if brace else ""}{labels or "}"} {value}'
