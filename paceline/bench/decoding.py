"""What decoding takes: a batch's decode phase, prompts and drafters' reading of them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from paceline.engine import LLM
from paceline.types import Output, SamplingParams, Speculation, StepStats


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
    """Generate all prompts together, nothing cached of earlier ones."""
    llm.engine.pool.forget_prefixes()
    with listening(llm) as heard:
        outputs = llm.generate(list(prompts), params, speculation=speculation)
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
    )


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
