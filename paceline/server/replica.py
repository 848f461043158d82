"""A server without a socket: the application over a model of its own, asked by messages."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from starlette.types import Message

from paceline.engine import LLM
from paceline.engine.options import LLMOptions
from paceline.errors import EngineError
from paceline.server.app import build_app
from paceline.server.settings import ServerConfig


@dataclass(frozen=True)
class Whole:
    """A reply in one piece, and whose it is."""

    replica: str
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class Replica:
    """One of several that answer alike; what it is built from can be sent to another machine."""

    def __init__(
        self, model: str, drafts: Sequence[str], options: LLMOptions, config: ServerConfig
    ) -> None:
        if options.get("threads") is None:  # what starts it may have said one to everybody
            options = {**options, "threads": os.cpu_count()}
        self._app = build_app(LLM(model, draft=drafts, **options), config)
        self._name = f"{socket.gethostname()}-{os.getpid()}"
        self._starting, self._running = asyncio.Lock(), AsyncExitStack()

    async def stream(self, scope: Mapping[str, Any], body: bytes) -> AsyncGenerator[Message, None]:
        """The messages of the reply to a request; ending it early is the client's going."""
        await self._start()
        messages: asyncio.Queue[Message | None] = asyncio.Queue()
        asked = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not asked:
                await asyncio.Event().wait()  # for nothing: who goes cancels
            return asked.pop()

        reply = asyncio.ensure_future(self._app({**scope}, receive, messages.put))
        reply.add_done_callback(lambda _: messages.put_nowait(None))
        try:
            while (message := await messages.get()) is not None:
                yield message
            await reply
        finally:
            reply.cancel()

    async def whole(self, scope: Mapping[str, Any]) -> Whole:
        """The reply to a request without a body."""
        start, *rest = [message async for message in self.stream(scope, b"")]
        body = b"".join(message.get("body", b"") for message in rest)
        return Whole(self._name, start["status"], start["headers"], body)

    async def check_health(self) -> None:
        """Raise EngineError where it must be started anew."""
        await self._start()
        if not self._app.state.service.llm.is_alive:
            raise EngineError("The engine has stopped.")

    async def _start(self) -> None:
        """Begin the application's life, once."""
        async with self._starting:
            if not hasattr(self._app.state, "service"):
                lifespan = self._app.router.lifespan_context(self._app)
                await self._running.enter_async_context(lifespan)
