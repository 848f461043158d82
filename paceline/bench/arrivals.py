"""Requests that come when they come: what each waits, with drafting on and off by turns.

The load is open: a request is sent at its time whether or not earlier ones are done, and what it
waits is counted from that time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from typing import Generic, TypeVar

from paceline.errors import ConfigError
from paceline.plan.workload import Percentiles, Slo, bursty_ms, poisson_ms

P = TypeVar("P")
"""A prompt: ids, or text."""
LEAST_MS = 1e-3
OFF, ON = "off", "on"
PATTERNS: Mapping[str, Callable[..., list[float]]] = {"poisson": poisson_ms, "bursty": bursty_ms}


@dataclass(frozen=True)
class Seen:
    """What one request saw."""

    ttft_ms: float
    """From the time it was to be sent to its first token."""
    decode_ms: float
    """From its first token to its last."""
    tokens: int

    @property
    def ms_per_token(self) -> float:
        """Between events, divided by the tokens they brought; never quite 0."""
        return max(self.decode_ms, LEAST_MS) / max(1, self.tokens - 1)


Ask = Callable[[P], Awaitable[Seen | None]]
"""Sends a prompt and sees it through; None where it was refused, or failed."""


@dataclass(frozen=True)
class Way(Generic[P]):
    """Drafting on, or off."""

    name: str
    ask: Ask[P]
    begin: Callable[[], AbstractContextManager[object]]
    """Held while a window of this way lasts."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A number of requests, from the first one's time to the last one's end."""

    pattern: str
    rate: float
    way: str
    seen: Sequence[Seen]
    failed: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        """Of all requests together."""
        return sum(one.tokens for one in self.seen) / self.seconds

    def goodput_per_s(self, slo: Slo) -> float:
        """Requests per second that kept both limits."""
        return sum(is_good(one, slo) for one in self.seen) / self.seconds

    def ttft_ms(self) -> Percentiles:
        """Over its requests."""
        return Percentiles.of([one.ttft_ms for one in self.seen])

    def ms_per_token(self) -> Percentiles:
        """Over its requests."""
        return Percentiles.of([one.ms_per_token for one in self.seen])


def is_good(seen: Seen, slo: Slo) -> bool:
    """Whether a request kept both limits."""
    return seen.ttft_ms <= slo.ttft_ms and seen.ms_per_token <= slo.ms_per_token


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is sent."""

    rates: Sequence[float]
    """Requests per second."""
    patterns: Sequence[str]
    requests: int
    """Of a window."""
    turns: int
    """Windows of each pattern, rate and way."""

    @property
    def windows(self) -> int:
        """How many there will be."""
        return 2 * self.turns * len(self.rates) * len(self.patterns)


async def run_load(
    ways: Sequence[Way[P]], prompts: Sequence[P], load: Load
) -> AsyncIterator[Window]:
    """Each window when it is over, the ways by turns; both see the same prompts and times.

    Before the first, every way sees one request that does not count.

    Raises:
        ConfigError: no request of a window was served.
    """
    for way in ways:
        with way.begin():
            await way.ask(prompts[0])
    for pattern in load.patterns:
        for rate in load.rates:
            for turn in range(load.turns):
                times_ms = PATTERNS[pattern](load.requests, rate, seed=turn)
                for way in list(reversed(ways)) if turn % 2 else ways:
                    with way.begin():
                        seen, seconds = await run_window(way.ask, prompts, times_ms)
                    served = [one for one in seen if one]
                    if not served:
                        raise ConfigError(
                            f"None of {len(seen)} requests with drafting {way.name} was served; "
                            "see what the server says of them."
                        )
                    yield Window(
                        pattern=pattern,
                        rate=rate,
                        way=way.name,
                        seen=served,
                        failed=len(seen) - len(served),
                        seconds=seconds,
                    )


async def run_window(
    ask: Ask[P], prompts: Sequence[P], times_ms: Sequence[float]
) -> tuple[list[Seen | None], float]:
    """What each request saw, and the seconds until the last had ended."""
    began = time.perf_counter()

    async def send(prompt: P, at_ms: float) -> Seen | None:
        await asyncio.sleep(max(0.0, began + at_ms / 1e3 - time.perf_counter()))
        late_ms = 1e3 * (time.perf_counter() - began) - at_ms
        seen = await ask(prompt)
        return seen and Seen(seen.ttft_ms + late_ms, seen.decode_ms, seen.tokens)

    pairs = zip(cycle(prompts), times_ms, strict=False)
    seen = await asyncio.gather(*(send(prompt, at_ms) for prompt, at_ms in pairs))
    return list(seen), time.perf_counter() - began
