"""AsyncLLM: the texts of LLM, whatever the company; cancels, faults and closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from paceline.engine import LLM, AsyncLLM
from paceline.errors import EngineError, RequestError
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS

GREEDY = SamplingParams(temperature=0, max_tokens=24)
SEEDED = SamplingParams(temperature=0.9, seed=3, max_tokens=24)


def with_async(llm: LLM, work: Callable[[AsyncLLM], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncLLM(llm) as asynchronous:
            await work(asynchronous)

    asyncio.run(main())
    llm.engine.pool.check_idle()


def test_texts_are_those_of_the_llm(mini: LLM) -> None:
    settings = [GREEDY, SEEDED, replace(SEEDED, n=2), GREEDY, SEEDED]
    expected = [
        [o.text for o in mini.generate(prompt, params)]
        for prompt, params in zip(PROMPTS, settings, strict=True)
    ]

    async def work(llm: AsyncLLM) -> None:
        found = await asyncio.gather(*map(llm.generate, PROMPTS, settings))
        assert [[o.text for o in outputs] for outputs in found] == expected
        assert [o.choice for o in found[2]] == [0, 1]

    with_async(mini, work)


def test_deltas_add_up(mini: LLM) -> None:
    async def work(llm: AsyncLLM) -> None:
        ids = tuple(mini.encode(PROMPTS[0]))
        async with await llm.start([llm.request(ids, GREEDY, Speculation())]) as batch:
            events = [event async for event in batch]
        output = events[-1].output
        assert output is not None
        assert "".join(event.delta.text for event in events) == output.text
        assert [t for event in events for t in event.delta.token_ids] == [*output.token_ids]

    with_async(mini, work)


def test_a_batch_is_started_whole_or_not_at_all(mini: LLM) -> None:
    async def work(llm: AsyncLLM) -> None:
        good = llm.request((1, 2), GREEDY, Speculation())
        bad = llm.request((), GREEDY, Speculation())
        with pytest.raises(RequestError, match="The prompt is empty"):
            await llm.start([good, bad])
        assert await llm.call(lambda: mini.engine.has_work) is False
        with pytest.raises(RequestError, match="A prompt id is not in"):
            await llm.generate([10**6], GREEDY)

    with_async(mini, work)


def test_leaving_early_frees_before_the_next_step(mini: LLM) -> None:
    endless = replace(GREEDY, max_tokens=200, ignore_eos=True)

    async def work(llm: AsyncLLM) -> None:
        ids = tuple(mini.encode(PROMPTS[0]))
        asked = [llm.request(ids, endless, Speculation(), choice) for choice in range(3)]
        async with await llm.start(asked) as batch:
            await anext(aiter(batch))
            assert await llm.call(lambda: mini.engine.pool.used_count) > 0
        assert await llm.call(lambda: mini.engine.pool.used_count) == 0

    with_async(mini, work)


def test_a_cancelled_start_leaves_nothing(mini: LLM) -> None:
    async def work(llm: AsyncLLM) -> None:
        task = asyncio.create_task(llm.generate(PROMPTS[0], GREEDY))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await llm.call(lambda: mini.engine.has_work) is False

    with_async(mini, work)


def test_a_failed_pass_fails_its_requests_alone(mini: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = mini.generate(PROMPTS[0], GREEDY)
    broken: Any = mini.engine._drafters["ngram"].live

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a drafter's fault")

    async def work(llm: AsyncLLM) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(type(broken), "propose", fail)
            with pytest.raises(EngineError, match="a drafter's fault"):
                await llm.generate(PROMPTS[0], GREEDY, speculation=Speculation(drafter="ngram"))
        (after,) = await llm.generate(PROMPTS[0], GREEDY)
        assert after.text == expected.text

    with_async(mini, work)


def test_closing_ends_what_runs_and_what_comes(mini: LLM) -> None:
    async def main() -> None:
        llm = AsyncLLM(mini)
        ids = tuple(mini.encode(PROMPTS[0]))
        endless = replace(GREEDY, max_tokens=200, ignore_eos=True)
        batch = await llm.start([llm.request(ids, endless, Speculation())])
        await asyncio.to_thread(llm.close)
        with pytest.raises(EngineError, match="closed"):
            [event async for event in batch]
        with pytest.raises(EngineError, match="closed"):
            await llm.generate(PROMPTS[0])
        llm.close()

    asyncio.run(main())
    mini.engine.pool.check_idle()


def test_no_call_waits_behind_the_end(mini: LLM) -> None:
    """Closing while the engine is busy: what comes after it is refused, not forgotten."""

    async def main() -> None:
        llm, busy = AsyncLLM(mini), threading.Event()
        running = asyncio.create_task(llm.call(busy.wait))
        closing = asyncio.create_task(asyncio.to_thread(llm.close))
        while not llm._closed:
            await asyncio.sleep(0)
        with pytest.raises(EngineError, match="closed"):
            await llm.call(lambda: None)
        busy.set()
        await closing
        assert await running

    asyncio.run(main())


def test_a_drafter_that_cannot_forget_a_request_ends_no_other(
    mini: LLM, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (expected,) = mini.generate(PROMPTS[1], GREEDY)
    broken: Any = mini.engine._drafters["ngram"].live

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a drafter's fault")

    async def work(llm: AsyncLLM) -> None:
        ids = tuple(mini.encode(PROMPTS[0]))
        endless, asked = replace(GREEDY, max_tokens=200), Speculation(drafter="ngram")
        batch = await llm.start([llm.request(ids, endless, asked) for _ in range(2)])
        with monkeypatch.context() as patch:
            patch.setattr(type(broken), "release", fail)
            batch.close()
            assert await llm.call(lambda: mini.engine.has_work) is False
        (after,) = await llm.generate(PROMPTS[1], GREEDY)
        assert after.text == expected.text

    with_async(mini, work)
    assert "could not forget" in caplog.text
