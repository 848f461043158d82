"""A client of the server that costs next to nothing: HTTP/1.0 over asyncio's streams."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from paceline.errors import ConfigError


@dataclass
class Answer:
    """What came back of one request."""

    status: int = 0
    retry_after_s: int = 0
    text: str = ""
    tokens: int = 0
    error: str | None = None
    first_s: float = 0.0
    """From the request to the first event with text."""
    gaps_s: list[float] = field(default_factory=list)
    """Between events with text."""


@dataclass(frozen=True)
class Client:
    """Where the server is, and the key that opens it; raises ConfigError for no such address."""

    url: str
    api_key: str | None = None

    def __post_init__(self) -> None:
        """Check the address."""
        try:
            parts = urlsplit(self.url)
            known = parts.scheme == "http" and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known:
            raise ConfigError(f"'{self.url:.80}' is no address; say --url http://HOST:PORT.")

    async def get(self, path: str) -> str:
        """The body of a page."""
        reader, writer = await self._send("GET", path, b"")
        try:
            return (await reader.read()).decode().partition("\r\n\r\n")[2]
        finally:
            writer.close()

    async def complete(self, body: dict[str, Any], leave_after: int | None = None) -> Answer:
        """Run a completion, streamed or whole; hang up after so many events, if that is said."""
        began, answer = time.perf_counter(), Answer()
        data = json.dumps(body).encode()
        reader, writer = await self._send("POST", "/v1/completions", data)
        try:
            await self._read_head(reader, answer)
            if answer.status == 200 and body.get("stream"):
                await self._read_events(reader, answer, began, leave_after)
            else:
                read_whole(await reader.read(), answer)
        finally:
            writer.close()
        return answer

    async def _send(
        self, method: str, path: str, data: bytes
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
        key = f"Authorization: Bearer {self.api_key}\r\n" if self.api_key else ""
        head = f"{method} {path} HTTP/1.0\r\nHost: {where.netloc}\r\n{key}"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        return reader, writer

    async def _read_head(self, reader: asyncio.StreamReader, answer: Answer) -> None:
        answer.status = int((await reader.readline()).split()[1])
        while (line := (await reader.readline()).strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"retry-after":
                answer.retry_after_s = int(value)

    async def _read_events(
        self, reader: asyncio.StreamReader, answer: Answer, began: float, leave_after: int | None
    ) -> None:
        last, events = began, 0
        async for line in reader:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                answer.error = chunk["error"]["message"]
                return
            if chunk.get("usage"):
                answer.tokens = chunk["usage"]["completion_tokens"]
            if not chunk["choices"] or not chunk["choices"][0]["text"]:
                continue
            now = time.perf_counter()
            answer.text += chunk["choices"][0]["text"]
            if events:
                answer.gaps_s.append(now - last)
            else:
                answer.first_s = now - began
            last, events = now, events + 1
            if events == leave_after:
                return


def read_whole(body: bytes, answer: Answer) -> None:
    """A reply in one piece: a completion, or an error."""
    told = json.loads(body)
    if answer.status == 200:
        answer.text = told["choices"][0]["text"]
        answer.tokens = told["usage"]["completion_tokens"]
    else:
        answer.error = told["error"]["message"]
