"""What decoding takes: a batch's decode phase, prompts and drafters' reading of them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from statistics import median

from paceline.engine import LLM
from paceline.types import Output, Request, SamplingParams, Speculation, StepStats

OWNERS = count()
"""Each run is another owner's: drafters that remember texts know none of an earlier run."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A batch of requests from their prompts to their ends."""

    tokens: int
    """Committed in the decode phase: by steps that no prompt shared."""
    decode_ms: float
    """Of those steps, but for what drafters took to read prompts."""
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


@contextmanager
def listening(llm: LLM) -> Iterator[list[StepStats]]:
    """Yield the list that the engine's steps go to meanwhile."""
    heard: list[StepStats] = []
    llm.engine.listeners.append(heard.append)
    try:
        yield heard
    finally:
        llm.engine.listeners.remove(heard.append)


def run_batch(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, speculation: Speculation
) -> Run:
    """Generate all prompts together, nothing cached or remembered of earlier ones."""
    with listening(llm) as heard:
        outputs = generate(llm, prompts, params, speculation)
    steps = tuple(step for step in heard if step.drafts and not step.prefill_rows)
    extra_ms = draft_prefill_ms(steps)
    return Run(
        tokens=sum(step.committed for step in steps),
        decode_ms=sum(step.step_ms for step in steps) - extra_ms,
        draft_prefill_ms=extra_ms,
        ttft_ms=tuple(1e3 * output.timing.prefill_s for output in outputs),
        ms_per_token=tuple(map(ms_per_token, outputs)),
        steps=steps,
        texts=tuple(output.token_ids for output in outputs),
        requests=tuple(output.request_id for output in outputs),
    )


def generate(
    llm: LLM, prompts: Sequence[Sequence[int]], params: SamplingParams, speculation: Speculation
) -> list[Output]:
    """The prompts' outputs, for an owner of their own and without cached prefixes."""
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
    try:
        for request in requests:
            engine.add(request)
        while engine.has_work:
            engine.step()
        return [engine.take(request.id) for request in requests]
    finally:
        for request in requests:
            if request.id in engine:
                engine.abort(request.id)


def ms_per_token(output: Output) -> float:
    """Decode time over the tokens after the first."""
    return 1e3 * output.timing.decode_s / max(1, len(output.token_ids) - 1)


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
