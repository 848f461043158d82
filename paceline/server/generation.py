"""One HTTP request's outputs: admitted, run, measured, and ended whatever happens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from paceline.engine import AsyncLLM
from paceline.metrics.meters import Meters
from paceline.server.failures import ApiError
from paceline.server.gate import Gate
from paceline.server.names import DrafterNames
from paceline.server.pieces import Piece, Pieces
from paceline.server.settings import ServerConfig
from paceline.types import FinishReason, Output, Request


@dataclass(frozen=True, eq=False)
class Service:
    """What every endpoint shares."""

    llm: AsyncLLM
    config: ServerConfig
    model_name: str
    names: DrafterNames
    gate: Gate
    meters: Meters


@dataclass(frozen=True)
class Written:
    """What one step wrote for one output."""

    index: int
    pieces: list[Piece]
    output: Output | None
    """The whole result, at its end."""


class Generation:
    """Use as `async with`; inside, iterate once. Leaving aborts what still runs, at once."""

    def __init__(self, service: Service, requests: Sequence[Request]) -> None:
        self.service, self.requests = service, requests
        self.outputs: dict[int, Output] = {}
        self._began = time.perf_counter()

    async def __aenter__(self) -> Generation:
        """Start the requests; raises ApiError or RequestError where they are not taken."""
        self.service.gate.enter(len(self.requests))
        try:
            self._batch = await self.service.llm.start(self.requests)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._batch.close()
        self._leave()
        for _ in range(len(self.requests) - len(self.outputs)):
            self.service.meters.finished(FinishReason.ABORT)

    def _leave(self) -> None:
        self.service.gate.leave(len(self.requests), time.perf_counter() - self._began)

    async def __aiter__(self) -> AsyncIterator[Written]:
        """What is written, as it comes; raises ApiError where an output cannot go on."""
        tokenizer, meters = self.service.llm.llm.tokenizer, self.service.meters
        cutters = [Pieces(tokenizer) for _ in self.requests]
        last = [self._began] * len(self.requests)
        begun = [False] * len(self.requests)
        async for event in self._batch:
            index, now = event.index, time.perf_counter()
            meters.arrived(now - last[index], len(event.delta.token_ids), first=not begun[index])
            last[index], begun[index] = now, True
            if event.output:
                self.outputs[index] = event.output
                meters.ended(event.output, now - self._began)
                if event.output.error:
                    raise ApiError(400, event.output.error, code="cannot_continue")
            yield Written(index, cutters[index].push(event.delta), event.output)

    @property
    def ordered(self) -> list[Output]:
        """The outputs of all requests, in their order, once all have ended."""
        return [self.outputs[index] for index in range(len(self.requests))]
