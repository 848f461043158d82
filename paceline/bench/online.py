"""Load on a running server: many clients at once, and every text held to its plain reference."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paceline.bench.http_client import Answer, Client

PROMPTS = (
    "def read_lines(path):\n",
    "class Stack:\n    def __init__(self):\n",
    "import os\n\nfor name in os.listdir('.'):\n    print(name)\nfor name in",
    "x = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1,",
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 0, "repetition_penalty": 1.2},
    {"temperature": 0.8, "seed": 11},
    {"temperature": 1.0, "seed": 12, "top_p": 0.9, "stop": ["\n\n"]},
    {"temperature": 0.7, "seed": 13, "top_k": 20, "frequency_penalty": 0.5},
)
BAD: tuple[dict[str, Any], ...] = (
    {"temperature": -1},
    {"no_such_field": 1},
    {"speculation": {"drafter": "no-such-drafter"}},
    {"prompt": "word " * 200_000},
)
LENGTHS = (8, 32, 64)
PLAIN = {"enabled": False}


@dataclass
class Load:
    """What many clients saw; times in ms."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Texts that are not their reference, and statuses that should not be; empty if all is well."""
    first_ms: list[float] = field(default_factory=list)
    between_ms: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    blocks_left: int = 0
    """Of the cache, held when nothing ran any more."""
    resident_bytes: tuple[int, int] = (0, 0)
    """The server's memory after a fifth of the requests, and at the end."""

    def as_record(self) -> dict[str, Any]:
        """What --json prints."""
        return {
            "outcomes": dict(sorted(self.outcomes.items())),
            "wrong": self.wrong,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "tokens_per_s": self.tokens / self.seconds,
            "first_ms": percentiles(self.first_ms),
            "between_events_ms": percentiles(self.between_ms),
            "blocks_left": self.blocks_left,
            "resident_bytes": list(self.resident_bytes),
        }


def percentiles(values: list[float]) -> dict[str, float]:
    """The 50th and the 99th; nothing of nothing."""
    ordered = sorted(values)
    return {f"p{p}": ordered[len(ordered) * p // 100] for p in (50, 99)} if ordered else {}


class Clients:
    """Clients that ask for one thing after another until there has been enough."""

    def __init__(
        self, client: Client, drafters: list[str], max_tokens: int | None, seed: int = 0
    ) -> None:
        """They want `max_tokens` of text each; rough ones (None) mix all, and misbehave."""
        self.load = Load()
        self._client, self._drafters, self._max_tokens = client, drafters, max_tokens
        self._seed = seed
        self._references: dict[str, asyncio.Task[str]] = {}

    async def run(self, count: int, more: Callable[[], bool]) -> None:
        """`count` clients at once, while `more()` says so."""
        began = time.perf_counter()
        await asyncio.gather(*(self._run_one(number, more) for number in range(count)))
        self.load.seconds = time.perf_counter() - began

    async def _run_one(self, number: int, more: Callable[[], bool]) -> None:
        chance = random.Random(self._seed * 1000 + number)
        while more():
            if self._max_tokens is None:
                await self._ask_roughly(chance)
            else:
                await self._ask_smoothly(chance, self._max_tokens)

    async def _ask_smoothly(self, chance: random.Random, max_tokens: int) -> None:
        asked = {"prompt": chance.choice(PROMPTS), "temperature": 0, "max_tokens": max_tokens}
        answer = await self._patiently(asked | {"ignore_eos": True} | streaming())
        self._expect(answer, 200, asked)
        self._count("served", answer)

    async def _ask_roughly(self, chance: random.Random) -> None:
        asked = {
            "prompt": chance.choice(PROMPTS),
            "max_tokens": chance.choice(LENGTHS),
            **chance.choice(SETTINGS),
        }
        body = asked | {"speculation": self._speculation(chance)}
        kind = chance.random()
        if kind < 0.15:
            answer = await self._patiently(asked | chance.choice(BAD))
            self.load.outcomes["refused"] += 1
            self._expect(answer, 400, asked)
        elif kind < 0.30:
            await self._patiently(body | streaming(), leave_after=chance.randint(1, 4))
            self.load.outcomes["left"] += 1
        else:
            streams = streaming() if kind < 0.85 else {}
            answer = await self._patiently(body | streams)
            self._count("streamed" if streams else "whole", answer)
            if self._expect(answer, 200, body) and answer.text != await self._reference(asked):
                self.load.wrong.append(f"another text: {json.dumps(body)}")

    def _speculation(self, chance: random.Random) -> dict[str, Any]:
        if chance.random() < 0.2:
            return PLAIN
        return {"drafter": chance.choice(self._drafters), "k": chance.randint(0, 8)}

    def _count(self, kind: str, answer: Answer) -> None:
        self.load.outcomes[kind] += 1
        self.load.tokens += answer.tokens
        if answer.gaps_s:
            self.load.first_ms.append(1e3 * answer.first_s)
            self.load.between_ms += [1e3 * gap for gap in answer.gaps_s]

    def _expect(self, answer: Answer, status: int, body: dict[str, Any]) -> bool:
        well = answer.status == status and (status != 200 or answer.error is None)
        if not well:
            told = f"{answer.status} {answer.error} for {json.dumps(body)[:300]}"
            self.load.wrong.append(told)
        return well

    async def _reference(self, asked: dict[str, Any]) -> str:
        """The text without speculation; asked for once."""
        key = json.dumps(asked)
        if key not in self._references:
            self._references[key] = asyncio.ensure_future(self._plain(asked))
        return await self._references[key]

    async def _plain(self, asked: dict[str, Any]) -> str:
        answer = await self._patiently(asked | {"speculation": PLAIN})
        self.load.outcomes["reference"] += 1
        return answer.text

    async def _patiently(self, body: dict[str, Any], leave_after: int | None = None) -> Answer:
        """Ask, and as long as the server is full, ask again when it says."""
        while True:
            answer = await self._client.complete(body, leave_after)
            if answer.status != 429:
                return answer
            self.load.outcomes["told to wait"] += 1
            await asyncio.sleep(answer.retry_after_s)


def streaming() -> dict[str, Any]:
    """The fields of a streamed request that tells its usage."""
    return {"stream": True, "stream_options": {"include_usage": True}}


async def run_load(
    client: Client,
    clients: int,
    max_tokens: int | None,
    seconds: float | None = None,
    requests: int | None = None,
) -> Load:
    """Load a server for `seconds`, or with so many `requests`; then see what it has left.

    Clients want `max_tokens` each, or are rough ones (None).
    """
    (model,) = json.loads(await client.get("/v1/models"))["data"]
    crowd = Clients(client, model["drafters"], max_tokens)
    began, asked, early = time.perf_counter(), 0, asyncio.Future[int]()

    def progress() -> float:
        if seconds is not None:
            return (time.perf_counter() - began) / seconds
        return asked / (requests or 1)

    def more() -> bool:
        nonlocal asked
        if progress() >= 0.2 and not early.done():
            early.set_result(0)
        going_on = progress() < 1
        asked += 1
        return going_on

    async def watch() -> int:
        await early
        return int((await read_metrics(client))["process_resident_memory_bytes"])

    watching = asyncio.ensure_future(watch())
    await crowd.run(clients, more)
    page = await read_metrics(client)
    crowd.load.blocks_left = int(page["paceline_kv_blocks_used"])
    if not early.done():
        early.set_result(0)
    resident = int(page["process_resident_memory_bytes"])
    crowd.load.resident_bytes = await watching, resident
    return crowd.load


async def read_metrics(client: Client) -> dict[str, float]:
    """Every series of the metrics page."""
    lines = (await client.get("/metrics")).splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}
