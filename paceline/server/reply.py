"""A generation as an HTTP reply: the same chunks, streamed as they come or put together."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from paceline.server.failures import ApiError, told
from paceline.server.form import Chunk, Form
from paceline.server.generation import Generation

T = TypeVar("T")
log = logging.getLogger("paceline.server")

EVENT_STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
DONE = {"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False}


class Gone(Exception):  # noqa: N818 - the client's doing, no error
    """The client went before its reply ended."""


class Reply:
    """The ASGI response of a generation. The client's going ends it, as its time's running out."""

    def __init__(self, generation: Generation, form: Form) -> None:
        self._generation, self._form = generation, form
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the generation and send what it writes."""
        try:
            await unless_gone(receive, self._run(scope, receive, send))
        except Gone:
            scope["paceline"]["gone"] = True

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._generation.service.config.limits.request_timeout_s
        try:
            async with asyncio.timeout(limit):
                # The places in the batch are free again before the client knows of the end.
                async with self._generation as generation:
                    chunks = self._form.chunks(generation)
                    if self._form.ask.stream:
                        await self._stream(chunks, send)
                    else:
                        whole = self._form.whole([chunk async for chunk in chunks])
                if self._form.ask.stream:
                    await send(DONE)
                else:
                    await JSONResponse(whole)(scope, receive, send)
        except Exception as error:
            await self._fail(error, scope, receive, send)
        scope["paceline"] |= self._summary()

    async def _stream(self, chunks: AsyncIterator[Chunk], send: Send) -> None:
        """Headers go with the first chunk: what is refused before it has a status of its own."""
        options = self._form.ask.stream_options
        wants_usage = options is not None and options.include_usage
        async for chunk in chunks:
            if "usage" in chunk and not wants_usage:
                continue
            if not self._started:
                start = {"type": "http.response.start", "status": 200, "headers": EVENT_STREAM}
                await send(start)
                self._started = True
            await self._send(send, chunk | ({"usage": chunk.get("usage")} if wants_usage else {}))

    async def _send(self, send: Send, chunk: Chunk) -> None:
        await send(event(chunk))

    async def _fail(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell what went wrong: as the reply, or as the last event of a stream."""
        known = told(error, type(self._form.ask).model_fields)
        if known is None:
            log.exception("bug", extra=scope["paceline"])
            known = ApiError(500, "The server failed; its log says why.")
        scope["paceline"]["error"] = known.message
        if not self._started:
            await known.response()(scope, receive, send)
            return
        await self._send(send, known.body())
        await send(DONE)

    def _summary(self) -> dict[str, Any]:
        outputs = self._generation.outputs.values()
        return {
            "outputs": len(self._generation.requests),
            "prompt_tokens": sum(o.prompt_tokens for o in outputs if o.choice == 0),
            "completion_tokens": sum(len(o.token_ids) for o in outputs),
        }


def event(chunk: Chunk) -> Message:
    """A chunk as a stream sends it."""
    text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    body = f"data: {text}\n\n".encode()
    return {"type": "http.response.body", "body": body, "more_body": True}


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled if the client goes; raises Gone then.

    The request's body must have been read.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        for pending in (task, gone):
            pending.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
