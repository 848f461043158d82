"""`AsyncLLM`: the engine on a thread of its own, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

from paceline.engine.llm import LLM
from paceline.engine.prompts import Prompt
from paceline.errors import EngineError
from paceline.types import Delta, Output, Request, SamplingParams, Speculation

T = TypeVar("T")
log = logging.getLogger("paceline.engine")


@dataclass(frozen=True)
class Event:
    """What one step committed for one request of a batch."""

    index: int
    """The request's place in its batch."""
    delta: Delta
    output: Output | None = None
    """The whole result, with the request's last delta."""


class AsyncLLM:
    """An `LLM` whose engine runs on a thread; every coroutine may start requests on it.

    While a request runs, the engine is this thread's alone: do not call the LLM's own methods
    that generate. Use it as `async with`, or call `close`.
    """

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self._ids = count()
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._open: dict[str, tuple[Batch, int]] = {}
        """Running requests: their batch and their place in it; the engine thread's alone."""
        self._door = threading.Lock()
        """Held while a call is queued: none comes behind the one that ends the thread."""
        self._closed = self._ended = False
        self._thread = threading.Thread(target=self._run, name="paceline-engine", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread.is_alive()

    async def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        speculation: Speculation | None = None,
        owner: str = "",
    ) -> list[Output]:
        """Continue a prompt; one output a sample.

        Raises:
            RequestError: the prompt cannot run.
            EngineError: a pass failed that it was in.
        """
        setting = params or SamplingParams()
        ids = tuple(self.llm.encode(prompt) if isinstance(prompt, str) else prompt)
        asked = [
            self.request(ids, setting, speculation or Speculation(), choice, owner)
            for choice in range(setting.n)
        ]
        async with await self.start(asked) as batch:
            outputs = [event async for event in batch if event.output]
        ordered = sorted(outputs, key=lambda event: event.index)
        return [event.output for event in ordered if event.output]

    def request(
        self,
        prompt_ids: tuple[int, ...],
        params: SamplingParams,
        speculation: Speculation,
        choice: int = 0,
        owner: str = "",
    ) -> Request:
        """A request with an id that no other of this engine has."""
        return Request(
            id=f"async-{next(self._ids)}",
            prompt_ids=prompt_ids,
            params=params,
            speculation=speculation,
            choice=choice,
            owner=owner,
        )

    async def start(self, requests: Sequence[Request]) -> Batch:
        """Queue the requests, all or none; close the batch, or leave its `async with`, to abort.

        Raises:
            RequestError: one of them cannot run.
            EngineError: the engine is closed.
        """
        batch = Batch(self, tuple(request.id for request in requests))
        try:
            await self.call(lambda: self._add(batch, requests))
        except asyncio.CancelledError:
            batch.close()
            raise
        return batch

    async def call(self, call: Callable[[], T]) -> T:
        """The result of a call on the engine's thread, between two steps; raises what it raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._door:
            if self._closed or not self.is_alive:
                raise EngineError("The engine is closed.")
            self._calls.put(partial(_answer, call, loop, future))
        return await future

    def abort(self, batch: Batch) -> None:
        """End what still runs of a batch before the next step; from any thread, at once."""
        self._calls.put(partial(self._abort_or_log, batch))

    def close(self) -> None:
        """End every request and the thread."""
        with self._door:
            self._closed = True
            self._calls.put(self._end)
        self._thread.join()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def _run(self) -> None:
        """The engine's thread: calls between steps, steps while a request is open."""
        while not self._ended:
            while not self._ended and (not self._open or not self._calls.empty()):
                self._calls.get()()
            if self._open:
                self._step()

    def _end(self) -> None:
        self._fail("The engine was closed.")
        self._ended = True

    def _add(self, batch: Batch, requests: Sequence[Request]) -> None:
        engine = self.llm.engine
        try:
            for index, request in enumerate(requests):
                engine.add(request)
                self._open[request.id] = batch, index
        except BaseException:
            self._abort(batch)
            raise

    def _abort(self, batch: Batch) -> None:
        with contextlib.ExitStack() as aborts:
            for request_id in batch.ids:
                if self._open.pop(request_id, None):
                    aborts.callback(self.llm.engine.abort, request_id)

    def _abort_or_log(self, batch: Batch) -> None:
        try:
            self._abort(batch)
        except Exception:
            log.exception("a drafter could not forget a request that was aborted")

    def _step(self) -> None:
        engine, arrived = self.llm.engine, defaultdict[Batch, list[Event]](list)
        try:
            for delta in engine.step():
                batch, index = self._open[delta.request_id]
                output = None
                if delta.finish_reason:
                    output = engine.take(delta.request_id)
                    del self._open[delta.request_id]
                arrived[batch].append(Event(index, delta, output))
        except Exception as error:
            self._fail(f"A pass failed that this request was in ({error}); send it again.")
        _post(arrived)

    def _fail(self, reason: str) -> None:
        """End every open request; the engine can be used on."""
        failed = {batch: [EngineError(reason)] for batch, _ in self._open.values()}
        for request_id in list(self._open):
            if request_id in self.llm.engine:
                with contextlib.suppress(Exception):  # what broke the pass may break this, too
                    self.llm.engine.abort(request_id)
        self._open.clear()
        _post(failed)


@dataclass(eq=False)
class Batch:
    """Requests that were started together: their events as they come, until all have ended."""

    _llm: AsyncLLM
    ids: tuple[str, ...]
    _left: int = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False, default_factory=asyncio.get_running_loop)
    _arrived: asyncio.Queue[Event | EngineError] = field(init=False, default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        """Every request has its last event to come."""
        self._left = len(self.ids)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The events; raises EngineError where a pass failed. Leaving early aborts the rest."""
        try:
            while self._left:
                event = await self._arrived.get()
                if isinstance(event, EngineError):
                    raise event
                self._left -= event.output is not None
                yield event
        finally:
            self.close()

    def close(self) -> None:
        """Abort what still runs."""
        if self._left:
            self._left = 0
            self._llm.abort(self)

    async def __aenter__(self) -> Batch:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def deliver(self, events: Sequence[Event | EngineError]) -> None:
        """Take events in, on the loop's own thread."""
        for event in events:
            self._arrived.put_nowait(event)


def _post(arrived: Any) -> None:
    """Hand events to their batches: one wake-up a loop and step, whatever the number of batches."""
    by_loop = defaultdict(list)
    for batch, events in arrived.items():
        by_loop[batch._loop].append((batch, events))
    for loop, deliveries in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, deliveries)


def _deliver(deliveries: Sequence[tuple[Batch, Sequence[Event | EngineError]]]) -> None:
    for batch, events in deliveries:
        batch.deliver(events)


def _answer(
    call: Callable[[], T], loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]
) -> None:
    """Run a call and settle its future on the loop's thread, unless nobody waits for it."""
    try:
        result = call()
    except Exception as error:
        settle = partial(_settle, future, None, error)
    else:
        settle = partial(_settle, future, result, None)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(settle)


def _settle(future: asyncio.Future[T], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
