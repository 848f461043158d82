"""Speculation on against off: greedy and coupled text must be the same, token for token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.engine import LLM
from paceline.models import Tokenizer
from paceline.runtime import next_logits
from paceline.types import Output, SamplingParams, Speculation


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Where the two texts of a prompt part."""

    prompt: int
    position: int
    """Index of the first output token that differs."""
    token_on: int | None
    """None where that text had ended."""
    token_off: int | None
    text_on: str
    """What the token adds to the text; bytes that are no characters of their own as \\xNN."""
    text_off: str
    margin: float
    """Plain decoding's lead of its first over its second logit there."""

    @property
    def verdict(self) -> str:
        """A lead within float32 rounding of the logits could be a near-tie; more is a bug."""
        return "near-tie in floating point" if self.margin < 1e-3 else "bug"


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """The outcome over all prompts."""

    prompts: int
    tokens: int
    forks: tuple[Fork, ...]
    acceptance_rate: float
    mean_committed_per_pass: float
    seconds_on: float
    seconds_off: float

    @property
    def passed(self) -> bool:
        """Whether no text parted."""
        return not self.forks


def check_parity(
    llm: LLM,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    *,
    batch: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> ParityReport:
    """Generate every prompt with the default drafter and without; compare the ids.

    `params` must be greedy or carry a seed: only then is the text promised to be the same.
    """
    on, off = list[Output](), list[Output]()
    seconds = {"on": 0.0, "off": 0.0}
    for group in batches(prompts, batch):
        started = time.perf_counter()
        on += llm.generate(group, params)
        llm.engine.pool.forget_prefixes()  # else the plain run would read what the other wrote
        middle = time.perf_counter()
        off += llm.generate(group, params, speculation=Speculation(k=0))
        seconds["on"] += middle - started
        seconds["off"] += time.perf_counter() - middle
        llm.engine.pool.forget_prefixes()
        progress(len(on))
    counts = [output.counts for output in on]
    proposed, passes = sum(c.proposed for c in counts), sum(c.passes for c in counts)
    return ParityReport(
        prompts=len(on),
        tokens=sum(len(output.token_ids) for output in off),
        forks=tuple(find_forks(llm, prompts, on, off)),
        acceptance_rate=sum(c.accepted for c in counts) / max(1, proposed),
        mean_committed_per_pass=sum(c.committed for c in counts) / max(1, passes),
        seconds_on=seconds["on"],
        seconds_off=seconds["off"],
    )


def batches(prompts: Sequence[Sequence[int]], size: int) -> Iterator[list[Sequence[int]]]:
    """The prompts in groups of at most `size`."""
    for start in range(0, len(prompts), size):
        yield list(prompts[start : start + size])


def find_forks(
    llm: LLM, prompts: Sequence[Sequence[int]], on: Sequence[Output], off: Sequence[Output]
) -> Iterator[Fork]:
    """The first difference of each pair of texts that differ."""
    for index, (prompt, one, other) in enumerate(zip(prompts, on, off, strict=True)):
        if one.token_ids == other.token_ids:
            continue
        pairs = zip(one.token_ids, other.token_ids, strict=False)
        shorter = min(len(one.token_ids), len(other.token_ids))
        position = next((at for at, (a, b) in enumerate(pairs) if a != b), shorter)
        logits = next_logits(llm.model, [*prompt, *other.token_ids[:position]])
        first, second = logits.topk(2).values.tolist()
        token_on, token_off = at(one.token_ids, position), at(other.token_ids, position)
        yield Fork(
            prompt=index,
            position=position,
            token_on=token_on,
            token_off=token_off,
            text_on=spelt(llm.tokenizer, token_on),
            text_off=spelt(llm.tokenizer, token_off),
            margin=first - second,
        )


def at(ids: tuple[int, ...], position: int) -> int | None:
    """The id at a position, None past the end."""
    return ids[position] if position < len(ids) else None


def spelt(tokenizer: Tokenizer, token: int | None) -> str:
    """A token for people, in quotes; half a character shows as the bytes it is."""
    if token is None:
        return "the end"
    return f"'{tokenizer.token_bytes(token).decode('utf-8', 'backslashreplace')}'"
