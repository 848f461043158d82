"""The values that cross Paceline's seams: frozen, free of torch, free of behaviour."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from paceline.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How one request is sampled and when it stops; names and meanings are vLLM's.

    Raises:
        RequestError: a value is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    """Keep the k most likely ids; 0 or -1 keeps all."""
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    """Key of every random draw; with a seed the rule defaults to one whose text is reproducible."""
    max_tokens: int = 128
    stop: tuple[str, ...] = ()
    """Text that ends the output; the output ends before it."""
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        """Check the ranges and normalise `stop` to a tuple."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        checks = (
            (math.isfinite(self.temperature) and self.temperature >= 0, "temperature", ">= 0"),
            (self.top_k >= -1, "top_k", ">= -1"),
            (0 < self.top_p <= 1, "top_p", "in (0, 1]"),
            (0 <= self.min_p <= 1, "min_p", "in [0, 1]"),
            (self.max_tokens >= 1, "max_tokens", ">= 1"),
            (self.seed is None or 0 <= self.seed < 2**64, "seed", "in [0, 2**64)"),
            (all(stop), "stop", "a non-empty string"),
        )
        for holds, name, wanted in checks:
            if not holds:
                raise RequestError(f"{name} must be {wanted}, not {getattr(self, name)!r}.")


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """What one request asks of speculation; None leaves it to the engine."""

    drafter: str | None = None
    """A name loaded at start, or "none"."""
    k: int | None = None
    rule: str | None = None

    def __post_init__(self) -> None:
        """Check the range of k."""
        if self.k is not None and self.k < 0:
            raise RequestError(f"k must be >= 0, not {self.k}.")


@dataclass(frozen=True, kw_only=True)
class StructuredOutput:
    """What a whole output must be, said in exactly one of five ways; needs paceline[structured].

    Its syntax is checked when a request is added, by the library that reads it.

    Raises:
        RequestError: none or several are given, or one is empty, too long or no valid text.
    """

    json_schema: str | Mapping[str, Any] | None = None
    """A JSON schema, kept as text; properties come in the order in which it names them."""
    json_object: bool = False
    """Any JSON object."""
    regex: str | None = None
    """A regular expression for all of the output, without look-around."""
    choice: tuple[str, ...] = ()
    """One of these strings."""
    grammar: str | None = None
    """A grammar as Lark writes it, with a rule `start`, or as GBNF does, with a rule `root`."""
    disable_any_whitespace: bool = False
    """Write JSON without any blank."""

    LONGEST: ClassVar[int] = 1 << 16
    """Characters; bounds the work a hostile request makes."""

    def __post_init__(self) -> None:
        """Turn the schema into text and `choice` into a tuple; check what needs no library."""
        if isinstance(self.json_schema, Mapping):
            object.__setattr__(self, "json_schema", _dump_schema(self.json_schema))
        object.__setattr__(self, "choice", tuple(self.choice))
        if not all(isinstance(c, str) and c for c in self.choice):
            raise RequestError("choice must hold strings that are not empty.")
        kinds = ("json_schema", "json_object", "regex", "choice", "grammar")
        given = [kind for kind in kinds if getattr(self, kind) not in (None, False, ())]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise RequestError(f"Structured output takes one of {', '.join(kinds)}, not {found}.")
        source = "".join(self.choice) or getattr(self, given[0])
        if not isinstance(source, str | bool):
            raise RequestError(f"{given[0]} must be a string, not {type(source).__name__}.")
        if isinstance(source, str) and not 0 < len(source) <= self.LONGEST:
            raise RequestError(
                f"{given[0]} has {len(source)} characters; it must have 1 to {self.LONGEST}."
            )
        if isinstance(source, str) and any("\ud800" <= char <= "\udfff" for char in source):
            raise RequestError(f"{given[0]} holds half a surrogate pair; send valid text.")


def _dump_schema(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"json_schema is no JSON: {error}.") from error


@dataclass(frozen=True, kw_only=True)
class Request:
    """One prompt to continue."""

    id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    speculation: Speculation = field(default_factory=Speculation)
    choice: int = 0
    """The index among several samples of one prompt; part of every key."""


class FinishReason(StrEnum):
    """Why a request ended."""

    STOP = "stop"
    """An end-of-sequence id, a stop id or a stop string."""
    LENGTH = "length"
    """max_tokens, or the end of the context."""
    ABORT = "abort"


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

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens per proposed token; 0 where none was proposed."""
        return self.accepted / self.proposed if self.proposed else 0.0

    @property
    def mean_committed_per_pass(self) -> float:
        """Committed tokens per pass, prefill passes left out."""
        return self.committed / self.passes if self.passes else 0.0

    @property
    def per_position(self) -> tuple[float, ...]:
        """P(position j accepted | proposed, and all before it accepted)."""
        return tuple(s / r if r else 0.0 for s, r in zip(self.survived, self.reached, strict=True))


@dataclass(frozen=True)
class Span:
    """A piece of output text and where it came from."""

    text: str
    drafted: bool
    """Whether it is of an accepted draft token; else the target chose it."""


@dataclass(frozen=True, kw_only=True)
class Delta:
    """What one step committed for one request."""

    request_id: str
    spans: tuple[Span, ...]
    """The text that became final; it may lag behind the ids by the start of a stop string."""
    token_ids: tuple[int, ...]
    drafted: int
    """How many of token_ids, counted from the first, are accepted draft tokens."""
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
    prompt_tokens: int
    cached_tokens: int
    drafter: str
    rule: str
    counts: SpeculationCounts
    timing: Timing


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
    """Wall time by phase: schedule, propose, forward, laws, verify, commit, observe."""
