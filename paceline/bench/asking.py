"""How a bench's requests are asked: of an engine in this process, or of a server by its URL."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from paceline.bench.arrivals import OFF, ON, Ask, Seen, Way
from paceline.bench.decoding import OWNERS
from paceline.bench.http_client import Client
from paceline.bench.online import PLAIN, streaming
from paceline.bench.steered import steered
from paceline.engine import AsyncLLM
from paceline.engine.steering import Steering
from paceline.errors import EngineError
from paceline.types import AUTO, SamplingParams, Speculation

Ids = Sequence[int]


class Wheel:
    """A controller that steers while its own way runs, and keeps what it learns."""

    def __init__(self, engine: AsyncLLM) -> None:
        self._engine = engine
        self._steering: Steering | None = None

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Take the wheel; the engine must be idle."""
        self._engine.llm.engine.pool.forget_prefixes()
        with steered(self._engine.llm, self._steering) as self._steering:
            yield


def in_process(engine: AsyncLLM, params: SamplingParams) -> list[Way[Ids]]:
    """Drafting off and automatic, each under a controller of its own."""
    return [
        Way(name, asking(engine, params, Speculation(k=k)), Wheel(engine).begin)
        for name, k in ((OFF, 0), (ON, AUTO))
    ]


def asking(engine: AsyncLLM, params: SamplingParams, speculation: Speculation) -> Ask[Ids]:
    """Ask an engine for ids; every request is another owner's."""

    async def ask(ids: Ids) -> Seen | None:
        owner = f"bench-{next(OWNERS)}"
        request = engine.request(tuple(ids), params, speculation, owner=owner)
        began, times, tokens = time.perf_counter(), list[float](), 0
        try:
            async with await engine.start([request]) as batch:
                async for event in batch:
                    if event.delta.token_ids:
                        times.append(time.perf_counter())
                        tokens += len(event.delta.token_ids)
        except EngineError:
            return None
        if not times:
            return None
        return Seen(1e3 * (times[0] - began), 1e3 * (times[-1] - times[0]), tokens)

    return ask


def of_server(client: Client, body: dict[str, Any]) -> list[Way[str]]:
    """Drafting off, and as the server does it of itself."""

    def asking_server(more: dict[str, Any]) -> Ask[str]:
        async def ask(prompt: str) -> Seen | None:
            answer = await client.complete(body | streaming() | more | {"prompt": prompt})
            if answer.status != 200 or answer.error or not answer.first_s:
                return None
            return Seen(1e3 * answer.first_s, 1e3 * sum(answer.gaps_s), answer.tokens)

        return ask

    ways = {OFF: {"speculation": PLAIN}, ON: {}}
    return [Way(name, asking_server(more), nullcontext) for name, more in ways.items()]
