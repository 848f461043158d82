"""What a command uses where the user does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.registry import OptionString
from paceline.types import AUTO

if TYPE_CHECKING:
    from paceline.plan.emit import Kind

MODEL = "mini"
DRAFTS = {"mini": ("model:mini-draft",)}
"""Model name -> the drafters it is run with; every other model drafts only when asked to."""

TEMPERATURE = 0.0
"""Greedy: the same text each time, and the acceptance speculation does best with."""
MAX_TOKENS = 128
CHAT_MAX_TOKENS = 1024
BATCH = 1
BENCH_DRAFTS = ("ngram", "suffix")
"""Drafters measured beside the model's own."""
SHIPPED_DRAFTS = {
    "mini": ("layerskip", "medusa", "eagle", "eagle:tree=false", "suffix+eagle"),
}
"""Model name -> drafters that need nothing but what ships with it."""
LAW_BATCH = 64
"""Outputs that `certify --law` samples at once."""
QUICK_PROMPTS = 4
"""What `certify --quick` compares."""
BENCH_PROMPT = "def read_lines(path):\n"


def drafts_of(model: str, asked: list[str] | None) -> tuple[str, ...]:
    """The option strings asked for, else the model's own."""
    return tuple(asked) if asked else DRAFTS.get(model, ())


def compared_drafts_of(model: str) -> tuple[str, ...]:
    """The option strings that `bench drafters` compares."""
    return (*DRAFTS.get(model, ()), *BENCH_DRAFTS, *SHIPPED_DRAFTS.get(model, ()))


def kinds_elsewhere() -> dict[str, Kind]:
    """The drafters that other engines have too, and what those call them."""
    from paceline.plan.emit import Kind

    return {"model": Kind.MODEL, "ngram": Kind.LOOKUP, "suffix": Kind.SUFFIX}


def length_of(asked: list[str] | None, k: int | str | None) -> int | str | None:
    """The draft length asked for; else, of drafters asked for without one, what pays."""
    if k is not None or not asked:
        return k
    given = any("k" in OptionString.parse(text).options for text in asked)
    return None if given else AUTO


def bench_drafts_of(model: str, asked: list[str] | None) -> list[str]:
    """The option strings asked for, else those that `bench step` compares."""
    return asked or [*DRAFTS.get(model, ()), *BENCH_DRAFTS]
