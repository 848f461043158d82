"""What the controller is asked, what it answers and what it is told afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from paceline.errors import ConfigError


class Mode(StrEnum):
    """Why a step drafts what it drafts."""

    SPECULATE = "speculate"
    PLAIN = "plain"
    PROBE = "probe"
    """One request tries a drafter that is not in use."""
    MEASURE = "measure"
    """A plain pass among drafted ones, so that the cost it is compared with stays known."""
    PINNED = "pinned"
    """Nothing was left to choose."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One decoding request, before its draft is drawn."""

    id: str
    drafters: tuple[str, ...]
    """Those it may use; one if the client pinned it, none for plain decoding."""
    room: int
    """Tokens that could still be committed beside the pass's own."""
    context_tokens: int = 0
    k: int | None = None
    """The length the client pinned; None leaves it to the controller."""


@dataclass(frozen=True)
class Share:
    """What one request may draft in this step, fixed before anything is drawn."""

    drafter: str
    k: int
    speedup: float | None = field(default=None, compare=False)
    """Of the request's tokens per second over a plain step of the same batch, as predicted; None
    where nothing was."""


PLAIN = Share("", 0)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One step's budget and the reason for it."""

    shares: Mapping[str, Share]
    """By request id."""
    mode: Mode
    reason: str
    speedup: float | None = 1.0
    """Predicted over a plain step of the same batch; None where nothing was."""
    step_ms: float = 0.0
    """Predicted; 0 where nothing was."""


BudgetFor = Callable[[Sequence[Candidate], int], Decision]
"""Shares out a step's budget, from the requests that decode and the rows of prompts beside them."""


@dataclass(frozen=True)
class Outcome:
    """What a step made of one request's share."""

    id: str
    proposed: int
    """Tokens drafted; fewer than asked where the drafter had no more."""
    accepted: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a step did and how long it took."""

    rows: int
    """Of the pass, those of prompts included."""
    pass_ms: float
    """The whole step without drafting."""
    draft_ms: Mapping[str, float] = field(default_factory=dict)
    """By drafter."""
    outcomes: Sequence[Outcome] = ()
    """Of every request that drafted."""
    prefill_rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the operator allows."""

    max_k: int = 1024
    """Per request, whatever the batch and whatever it asks for."""
    by_batch: tuple[tuple[int, int], ...] = ()
    """(batch size from which it holds, most tokens per request), rising; 0 switches off."""
    max_rows: int = 512
    """Of one pass."""

    def __post_init__(self) -> None:
        """Check the ranges and the order."""
        sizes = [size for size, _ in self.by_batch]
        if self.max_k < 0 or any(k < 0 for _, k in self.by_batch) or self.max_rows < 1:
            raise ConfigError("Draft lengths must be >= 0 and max_rows >= 1.")
        if sizes != sorted(set(sizes)):
            raise ConfigError(f"The batch sizes of a schedule must rise, not {sizes}.")

    def ceiling(self, batch: int) -> int:
        """Most tokens that a request of such a batch may draft.

        ((1, 4), (8, 2), (32, 0)): 4 up to batch 7, 2 up to 31, then none.
        """
        caps = [k for size, k in self.by_batch if size <= batch]
        return min(self.max_k, caps[-1]) if caps else self.max_k
