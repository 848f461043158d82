"""How one request is sampled and when it stops."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from paceline.errors import RequestError
from paceline.structured import StructuredOutput
from paceline.values import conform_fields, shown


def _between(low: float, high: float) -> Callable[[float], bool]:
    return lambda value: low <= value <= high


def _none_or(holds: Callable[[int], bool]) -> Callable[[int | None], bool]:
    return lambda value: value is None or holds(value)


RANGES: Mapping[str, tuple[Callable[[Any], bool], str]] = MappingProxyType(
    {
        "temperature": (lambda t: math.isfinite(t) and t >= 0, "finite and >= 0"),
        "top_k": (lambda k: k >= -1, ">= -1"),
        "top_p": (lambda p: 0 < p <= 1, "in (0, 1]"),
        "min_p": (_between(0, 1), "in [0, 1]"),
        "typical_p": (lambda p: 0 < p <= 1, "in (0, 1]"),
        "presence_penalty": (_between(-2, 2), "in [-2, 2]"),
        "frequency_penalty": (_between(-2, 2), "in [-2, 2]"),
        "repetition_penalty": (lambda r: 0 < r < math.inf, "> 0"),
        "logit_bias": (
            lambda b: all(map(_between(-1000, 1000), b.values())),
            "of numbers in [-1000, 1000]",
        ),
        "bad_words": (all, "of non-empty strings"),
        "min_tokens": (lambda n: n >= 0, ">= 0"),
        "thinking_budget": (_none_or(lambda n: n >= 0), ">= 0"),
        "n": (lambda n: n >= 1, ">= 1"),
        "logprobs": (_none_or(lambda n: n >= 0), ">= 0"),
        "prompt_logprobs": (_none_or(lambda n: n >= 0), ">= 0"),
        "max_tokens": (lambda n: n >= 1, ">= 1"),
        "seed": (_none_or(lambda s: 0 <= s < 2**64), "in [0, 2**64)"),
        "stop": (all, "a non-empty string"),
    }
)
"""For each setting of SamplingParams with a range: what holds, and how to say it."""

_ADJUSTING: Mapping[str, Any] = MappingProxyType(
    {
        "allowed_token_ids": (),
        "bad_words": (),
        "structured": None,
        "thinking_budget": None,
        "min_tokens": 0,
        "logit_bias": {},
        "logits_processors": (),
        "repetition_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }
)


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How one request is sampled and when it stops; names and meanings are vLLM's.

    Raises:
        RequestError: a value is of another type or out of its range, or two exclude each other.
    """

    temperature: float = 1.0
    top_k: int = 0
    """Keep the k most likely ids; 0 or -1 keeps all."""
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    """Keep the ids whose surprise is nearest to the mean, up to this mass."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of ids that are in the output."""
    frequency_penalty: float = 0.0
    """Subtracted as often as the id is in the output."""
    repetition_penalty: float = 1.0
    """Divides the positive and multiplies the negative logits of ids in prompt or output."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """id -> what is added to its logit, in [-1000, 1000]."""
    bad_words: tuple[str, ...] = ()
    """Texts whose ids may not come about in the output."""
    allowed_token_ids: tuple[int, ...] = ()
    """Nothing but these ids; empty allows all."""
    logits_processors: tuple[Callable[[list[int], Any], Any], ...] = ()
    """Each maps (ids of the output so far, logits[V]) to logits[V], at every drafted node too."""
    structured: StructuredOutput | None = None
    """What the whole output must be: JSON, a regular expression, a choice, a grammar."""
    min_tokens: int = 0
    """Tokens before which nothing ends the output."""
    thinking_budget: int | None = None
    """Tokens a thought may take, between the model's marks; then it is closed."""
    n: int = 1
    """Samples of the prompt, each with draws of its own."""
    logprobs: int | None = None
    """How many of the likeliest ids are told with each token's own log-probability."""
    prompt_logprobs: int | None = None
    """The same for the prompt's tokens, always of the model's own logits: none was sampled."""
    processed_logprobs: bool = False
    """Whether `logprobs` are those of the law that was sampled, not of the model's own logits."""
    seed: int | None = None
    """Key of every random draw; with a seed the rule defaults to one whose text is reproducible."""
    max_tokens: int = 128
    stop: tuple[str, ...] = ()
    """Text that ends the output; the output ends before it."""
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        """Check the types, then the ranges."""
        conform_fields(self, RequestError)
        for name, (holds, wanted) in RANGES.items():
            value = getattr(self, name)
            if not holds(value):
                raise RequestError(f"{name} must be {wanted}, not {shown(value)}.")
        if self.min_tokens > self.max_tokens:
            raise RequestError(
                f"min_tokens {self.min_tokens} is more than max_tokens {self.max_tokens}."
            )
        if self.processed_logprobs and self.prompt_logprobs is not None:
            raise RequestError(
                "prompt_logprobs cannot be combined with processed_logprobs, which are of the law"
                " that was sampled; leave one of them out."
            )

    @property
    def tells_logprobs(self) -> bool:
        """Whether log-probabilities are wanted."""
        return self.logprobs is not None or self.prompt_logprobs is not None

    @cached_property
    def adjusting(self) -> tuple[str, ...]:
        """The settings in force that change logits by what stands before them."""
        return tuple(n for n, default in _ADJUSTING.items() if getattr(self, n) != default)

    @cached_property
    def allowed_ids(self) -> array[int]:
        """allowed_token_ids as numbers of 64 bits, which every row reads."""
        return array("q", self.allowed_token_ids)

    @property
    def adjusts(self) -> bool:
        """Whether there is such a setting."""
        return bool(self.adjusting)
