"""What decoding takes: a batch's decode phase, prompts and drafters' reading of them apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import TypeVar, cast

from paceline.engine import LLM, Engine
from paceline.types import Output, Request, SamplingParams, Speculation, StepStats

Result = TypeVar("Result")
Timed = tuple[StepStats, float]
"""A step and its milliseconds, what listens to it included."""
OWNERS = count()
"""Each run is another owner's: drafters that remember texts know none of an earlier run."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A batch of requests from their prompts to their ends."""

    tokens: int
    """Committed in the decode phase: by steps that no prompt shared."""
    decode_ms: float
    """Of those steps, what listens to them included, but for what drafters took to read prompts."""
    draft_prefill_ms: float
    """What drafters took longer than usual when they met a request first."""
    ttft_ms: tuple[float, ...]
    """By request, from its first pass to its first token."""
    ms_per_token: tuple[float, ...]
    """By request, after its first token."""
    steps: tuple[StepStats, ...]
    """Of the decode phase."""
    texts: tuple[tuple[int, ...], ...]
    """The ids, by request."""
    requests: tuple[str, ...]
    """Their names in the steps."""

    @property
    def tokens_per_s(self) -> float:
        """Of the decode phase, all requests together."""
        return 1e3 * self.tokens / self.decode_ms


Running = Generator[StepStats, None, "Run"]
"""A run that waits after every step until it is asked for the next."""


def run_batch(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, speculation: Speculation
) -> Run:
    """Generate all prompts together, nothing cached or remembered of earlier ones."""
    return at_once(running(llm, prompts, params, speculation))


def generate(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, speculation: Speculation
) -> list[Output]:
    """The prompts' outputs, for an owner of their own and without cached prefixes."""
    return at_once(generating(llm, prompts, params, speculation))


def running(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, speculation: Speculation
) -> Running:
    """The same as `run_batch`, step by step."""
    heard: list[Timed] = []
    outputs = yield from generating(
        llm, prompts, params, speculation, lambda *one: heard.append(one)
    )
    passes = decode_phase(heard)
    steps = tuple(step for step, _ in passes)
    extra_ms = draft_prefill_ms(steps)
    return Run(
        tokens=sum(step.committed for step in steps),
        decode_ms=sum(ms for _, ms in passes) - extra_ms,
        draft_prefill_ms=extra_ms,
        ttft_ms=tuple(1e3 * output.timing.prefill_s for output in outputs),
        ms_per_token=tuple(ms_per_token(output, [step for step, _ in heard]) for output in outputs),
        steps=steps,
        texts=tuple(output.token_ids for output in outputs),
        requests=tuple(output.request_id for output in outputs),
    )


def generating(
    llm: LLM,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    speculation: Speculation,
    hear: Callable[[StepStats, float], None] = lambda *_: None,
) -> Generator[StepStats, None, list[Output]]:
    """The same as `generate`, step by step; `hear` is told of each and its milliseconds as well."""
    engine, owner = llm.engine, f"bench-{next(OWNERS)}"
    engine.pool.forget_prefixes()
    requests = [
        Request(
            id=f"{owner}-{place}",
            prompt_ids=tuple(ids),
            params=params,
            speculation=speculation,
            owner=owner,
        )
        for place, ids in enumerate(prompts)
    ]
    unfinished = {request.id for request in requests}
    try:
        for request in requests:
            engine.add(request)
        while unfinished:
            began = time.perf_counter()
            step = step_of(engine, owner)
            ms = 1e3 * (time.perf_counter() - began)
            unfinished.difference_update(step.ended)
            hear(step, ms)
            yield step
        return [engine.take(request.id) for request in requests]
    finally:
        for request in requests:
            if request.id in engine:
                engine.abort(request.id)


def step_of(engine: Engine, owner: str) -> StepStats:
    """One step of the owner's requests."""
    heard: list[StepStats] = []
    engine.listeners.append(heard.append)
    try:
        engine.step(owner)
    finally:
        engine.listeners.remove(heard.append)
    (step,) = heard
    return step


def decode_phase(heard: Sequence[Timed]) -> list[Timed]:
    """Those of the decode phase."""
    return [(step, ms) for step, ms in heard if decodes(step)]


def decodes(step: StepStats) -> bool:
    """Whether it belongs to the decode phase: no prompt shares it."""
    return bool(step.drafts) and not step.prefill_rows


def at_once(steps: Generator[StepStats, None, Result]) -> Result:
    """Take all steps, one after the other, for what comes of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Result, end.value)


def ms_per_token(output: Output, steps: Sequence[StepStats]) -> float:
    """What the steps in which it decoded took, over its tokens after the first."""
    name = output.request_id
    own = [step for step in steps if any(one.request_id == name for one in step.drafts)]
    return sum(step.step_ms for step in own) / max(1, len(output.token_ids) - 1)


def draft_prefill_ms(steps: Sequence[StepStats]) -> float:
    """By how much drafting took longer in the steps in which a drafter met a request first.

    A drafter that took 50, 3, 3 and 3 ms over four steps of one request: 47.
    """
    total, met = 0.0, set[tuple[str, str]]()
    usual: dict[str, list[float]] = {}
    first: list[tuple[str, float]] = []
    for step in steps:
        for name, ms in step.draft_ms.items():
            pairs = {(name, one.request_id) for one in step.drafts if one.drafter == name}
            if pairs <= met:
                usual.setdefault(name, []).append(ms)
            else:
                first.append((name, ms))
            met |= pairs
    for name, ms in first:
        total += max(0.0, ms - median(usual.get(name, [0.0])))
    return total
