"""What the engine gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from math import isnan, nan


class FinishReason(StrEnum):
    """Why a request ended."""

    STOP = "stop"
    """An end-of-sequence id, a stop id or a stop string."""
    LENGTH = "length"
    """max_tokens, or the end of the context."""
    ABORT = "abort"
    ERROR = "error"
    """It could not go on; its Output says why."""


@dataclass(frozen=True, kw_only=True)
class SpeculationCounts:
    """One request's counters, over its passes without those that prefill."""

    passes: int = 0
    proposed: int = 0
    verified: int = 0
    accepted: int = 0
    committed: int = 0
    reached: tuple[int, ...] = ()
    """reached[j]: passes that proposed position j with all earlier positions accepted."""
    survived: tuple[int, ...] = ()
    """survived[j]: passes that accepted position j too."""
    speedups: float = field(default=0.0, compare=False)
    """The sum of what was predicted for each pass, 1 for one without a draft; not a number where
    one was drafted with nothing predicted. It rests on clocks, so equal outputs differ in it."""

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens per proposed token; 0 where none was proposed."""
        return self.accepted / self.proposed if self.proposed else 0.0

    @property
    def mean_committed_per_pass(self) -> float:
        """Committed tokens per pass, prefill passes left out."""
        return self.committed / self.passes if self.passes else 0.0

    @property
    def estimated_speedup(self) -> float | None:
        """Tokens per second over plain passes of the same batches, as the controller predicted:
        the mean over the passes; None where there was none, or nothing was predicted of one.
        """
        mean = self.speedups / self.passes if self.passes else nan
        return None if isnan(mean) else mean

    @property
    def per_position(self) -> tuple[float, ...]:
        """P(position j accepted | proposed, and all before it accepted)."""
        return tuple(s / r if r else 0.0 for s, r in zip(self.survived, self.reached, strict=True))


def summed(counts: Sequence[SpeculationCounts]) -> SpeculationCounts:
    """The sum of counters; positions are added one by one."""
    return SpeculationCounts(
        passes=sum(c.passes for c in counts),
        proposed=sum(c.proposed for c in counts),
        verified=sum(c.verified for c in counts),
        accepted=sum(c.accepted for c in counts),
        committed=sum(c.committed for c in counts),
        reached=tuple(map(sum, zip_longest(*(c.reached for c in counts), fillvalue=0))),
        speedups=sum(c.speedups for c in counts),
        survived=tuple(map(sum, zip_longest(*(c.survived for c in counts), fillvalue=0))),
    )


@dataclass(frozen=True)
class Span:
    """A piece of output text and where it came from."""

    text: str
    drafted: bool
    """Whether it is of an accepted draft token; else the target chose it."""


@dataclass(frozen=True, kw_only=True)
class TokenLogprobs:
    """A token's log-probability beside those of the likeliest ids."""

    token: int
    logprob: float
    rank: int
    """1 for the likeliest id."""
    top: tuple[tuple[int, float], ...]
    """(id, log-probability) by descending probability, then id."""


@dataclass(frozen=True, kw_only=True)
class Delta:
    """What one step committed for one request."""

    request_id: str
    spans: tuple[Span, ...]
    """The text that became final; it may lag behind the ids by the start of a stop string."""
    token_ids: tuple[int, ...]
    drafted: int
    """How many of token_ids, counted from the first, are accepted draft tokens."""
    drafter: str = ""
    """Who drafted those."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One entry for each of token_ids, where the request wants them."""
    finish_reason: FinishReason | None = None

    @property
    def text(self) -> str:
        """The spans' text."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Wall time of one request, in seconds."""

    prefill_s: float
    """From its first pass to its first token."""
    decode_s: float
    """From its first token to its last."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """A request's whole result."""

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    error: str | None = None
    """Why it could not go on, where it did not."""
    logprobs: tuple[TokenLogprobs, ...] | None = None
    """One entry for each of token_ids; None where the request wants none."""
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    """One entry for each token of the prompt; the first, which nothing foretells, has None."""
    choice: int = 0
    """The index among the samples of its prompt."""
    prompt_tokens: int
    cached_tokens: int
    drafter: str
    """Who proposed most; the first of those allowed where nobody did."""
    rule: str
    counts: SpeculationCounts
    by_drafter: Mapping[str, SpeculationCounts] = field(default_factory=dict)
    """The same by who might draft; "none" has the passes in which nobody might."""
    timing: Timing


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftStats:
    """What one step made of one request that decoded."""

    request_id: str
    drafter: str
    """"" where nothing might be drafted."""
    budget: int
    """Tokens that might be drafted, settled before anything was drawn."""
    proposed: int
    accepted: int
    context_tokens: int
    """Tokens of the request whose keys and values the pass read."""


@dataclass(frozen=True, kw_only=True)
class StepStats:
    """One engine step, for whoever listens."""

    running: int
    waiting: int
    prefill_rows: int
    verify_rows: int
    proposed: int
    accepted: int
    committed: int
    preempted: int
    blocks_used: int
    seconds: dict[str, float]
    """Wall time by phase: schedule, propose, pack, forward, laws, verify, commit, observe."""
    draft_ms: dict[str, float] = field(default_factory=dict)
    """Of the phase propose, what each drafter took."""
    drafts: tuple[DraftStats, ...] = ()
    """Of every request that decoded."""
    ended: tuple[str, ...] = ()
    """Requests that finished in the step, or were aborted since the one before."""
    mode: str = ""
    """What the budgets were for: speculate, plain, probe, measure, pinned."""
    reason: str = ""
    """Why they were what they were."""
    speedup: float | None = None
    """Predicted by the controller, over a plain step of the same batch; None where nothing was."""

    @property
    def step_ms(self) -> float:
        """The whole step."""
        return 1e3 * sum(self.seconds.values())

    @property
    def pass_ms(self) -> float:
        """The whole step but for drafting."""
        return self.step_ms - sum(self.draft_ms.values())
