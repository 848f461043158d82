"""What beam search is asked, and what it gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.errors import RequestError
from paceline.types.output import FinishReason
from paceline.values import conform_fields

MOST_PENALTY = 10
"""Longer lengths to higher powers leave the range of floats."""


@dataclass(frozen=True, kw_only=True)
class BeamSearchParams:
    """How far and how wide to search; names and meanings are vLLM's.

    Raises:
        RequestError: a value is of another type or out of its range.
    """

    beam_width: int = 4
    max_tokens: int = 128
    ignore_eos: bool = False
    temperature: float = 1.0
    """What the logits are divided by before log-probabilities are taken of them."""
    length_penalty: float = 1.0
    """A beam's score is its log-probability over its length, prompt included and the end not
    counted, to this power in -10 .. 10; it ranks the beams in the end, not while they grow."""

    def __post_init__(self) -> None:
        """Check the types, then the ranges."""
        conform_fields(self, RequestError)
        for name in ("beam_width", "max_tokens", "temperature"):
            if not 0 < getattr(self, name) < math.inf:
                raise RequestError(f"{name} must be finite and > 0, not {getattr(self, name)}.")
        if not abs(self.length_penalty) <= MOST_PENALTY:
            raise RequestError(
                f"length_penalty must be in -{MOST_PENALTY} .. {MOST_PENALTY},"
                f" not {self.length_penalty}."
            )


@dataclass(frozen=True, kw_only=True)
class BeamOutput:
    """One of the best outputs found."""

    text: str
    token_ids: tuple[int, ...]
    """An id that ended it included."""
    logprob: float
    """The sum of the tokens' log-probabilities under the target, in float64."""
    score: float
    """By this the beams are ranked; see `length_penalty`."""
    finish_reason: FinishReason


@dataclass(frozen=True, kw_only=True)
class BeamSearchOutput:
    """The best beams of one prompt, best first, and what finding them took."""

    beams: tuple[BeamOutput, ...]
    prompt_tokens: int
    drafter: str
    passes: int
    """Passes of the target, prefill left out."""
    steps: int
    """Tokens by which the beams grew; plain beam search takes a pass for each."""
    proposed: int
    """Tokens drafted."""
