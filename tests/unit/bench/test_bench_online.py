"""Open load: when requests are sent, what is counted, and the ways by turns."""

from __future__ import annotations

import asyncio
import json
import math
import time
from contextlib import contextmanager

import pytest

from paceline.bench.arrivals import OFF, ON, Load, Seen, Way, Window, run_load, run_window
from paceline.bench.asking import in_process
from paceline.bench.online_report import cells_of, report
from paceline.bench.setting import Setting
from paceline.engine import AsyncLLM
from paceline.errors import ConfigError
from paceline.plan.workload import Slo
from paceline.types import SamplingParams

LOAD = Load(rates=(1e6,), patterns=("poisson", "bursty"), requests=5, turns=2)


def windows_of(ways, prompts, load=LOAD) -> list[Window]:
    async def run() -> list[Window]:
        return [window async for window in run_load(ways, prompts, load)]

    return asyncio.run(run())


def test_ways_take_turns_with_the_same_prompts() -> None:
    log: list[str] = []

    def way(name: str) -> Way[str]:
        async def ask(prompt: str) -> Seen:
            log.append(prompt)
            return Seen(1.0, 8.0, 5)

        @contextmanager
        def begin():
            log.append(f"({name}")
            yield
            log.append(")")

        return Way(name, ask, begin)

    windows = windows_of([way(OFF), way(ON)], ["a", "b"])
    warm_up, window = ["a", ")"], ["a", "b", "a", "b", "a", ")"]
    turns = [OFF, ON, ON, OFF] * 2
    assert log == [
        "(off",
        *warm_up,
        "(on",
        *warm_up,
        *(entry for name in turns for entry in (f"({name}", *window)),
    ]
    assert [(one.pattern, one.way) for one in windows] == [
        *(("poisson", name) for name in turns[:4]),
        *(("bursty", name) for name in turns[4:]),
    ]
    assert all(one.tokens_per_s * one.seconds == pytest.approx(25) for one in windows)
    assert windows[0].ms_per_token().p99 == 2


def test_a_request_does_not_wait_for_those_before_it() -> None:
    """The first is answered only when the last has been sent."""
    sent = []

    async def run() -> list[Seen | None]:
        all_sent, began = asyncio.Event(), time.perf_counter()

        async def ask(prompt: int) -> Seen | None:
            sent.append(prompt)
            while prompt == 0 and time.perf_counter() - began < 5e-3:
                pass  # nothing else is sent meanwhile, late as it gets
            if len(sent) == 3:
                all_sent.set()
            await all_sent.wait()
            return None if prompt == 1 else Seen(0.5, 0.0, 1)

        seen, seconds = await run_window(ask, [0, 1, 2], [0.0, 1.0, 2.0])
        assert seconds >= 2e-3
        return seen

    first, refused, last = asyncio.run(run())
    assert sent == [0, 1, 2]
    assert refused is None
    assert first is not None
    assert last is not None
    assert last.ttft_ms >= 0.5 + 5 - 2 - 1  # from when it was to be sent, 2 ms after the first


def test_an_engine_serves_both_ways(mini) -> None:
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    before = list(mini.engine.listeners), mini.engine.budget_for
    heard = []

    async def run() -> list[Window]:
        async with AsyncLLM(mini) as engine:
            ways = in_process(engine, params)
            mini.engine.listeners.append(heard.append)
            prompts = [mini.encode("x = [1, 2, 1, 2,"), mini.encode("def f(a):\n")]
            return [window async for window in run_load(ways, prompts, LOAD)]

    windows = asyncio.run(run())
    mini.engine.listeners.remove(heard.append)
    assert (mini.engine.listeners, mini.engine.budget_for) == before
    assert [len(one.seen) for one in windows] == [5] * 8
    assert {seen.tokens for one in windows for seen in one.seen} == {6}
    assert all(seen.decode_ms > 0 for one in windows for seen in one.seen)
    modes = {step.mode for step in heard}
    assert "pinned" in modes  # off
    assert modes - {"pinned", ""}  # the controller's own
    mini.engine.pool.check_idle()


def test_nothing_served_is_an_error() -> None:
    async def ask(prompt: int) -> None:
        return None

    @contextmanager
    def begin():
        yield

    with pytest.raises(ConfigError, match="None of 5 requests with drafting off was served"):
        windows_of([Way(OFF, ask, begin), Way(ON, ask, begin)], [1])


def window(way: str, ms: float, ttft: float, failed: int = 0) -> Window:
    seen = [Seen(ttft, ms * 10, 11), Seen(ttft * 2, ms * 10, 11)]
    return Window(pattern="poisson", rate=2.0, way=way, seen=seen, failed=failed, seconds=4.0)


def test_goodput_counts_what_kept_both_limits() -> None:
    one = window(OFF, 5, 100)
    assert one.goodput_per_s(Slo()) == 0.5
    assert one.goodput_per_s(Slo(ttft_ms=150)) == 0.25
    assert one.goodput_per_s(Slo(ttft_ms=150, ms_per_token=4.9)) == 0
    assert one.goodput_per_s(Slo(ms_per_token=5)) == 0.5


def test_a_report_compares_on_with_off_turn_by_turn(mini) -> None:
    pairs = [(OFF, 10, 50), (ON, 5, 60), (ON, 4, 60), (OFF, 10, 50)]
    windows = [window(way, ms, ttft, failed=int(way == ON)) for way, ms, ttft in pairs]
    (cell,) = cells_of(windows)
    assert cell.ratio(lambda one: one.ms_per_token().p50).middle == pytest.approx(0.45)
    told = report(windows, Slo(ttft_ms=110), Setting.of(mini, "c"), ["a note"])
    page = told.as_markdown()
    assert "| poisson, 2/s | off | 5.5 | 0.500 |  | 0 |" in page
    assert "| poisson, 2/s | on | 5.5 | 0.250 | 0.450 (0.400 - 0.500) | 2 |" in page
    assert "| poisson, 2/s | off | 50 / 100 / 100 | 10.0 / 10.0 / 10.0 |" in page
    assert "Goodput: requests a second with TTFT <= 110 ms." in page
    assert "- a note" in page
    record = json.loads(json.dumps(told.as_record(), allow_nan=False))
    assert record["slo"] == {"ttft_ms": 110, "ms_per_token": None}
    assert [one["goodput_per_s"] for one in record["cells"][0]["ways"]["on"]] == [0.25, 0.25]
    assert math.isclose(record["cells"][0]["ms_per_token_over_off"]["middle"], 0.45)
