"""What callers give to generate from, held to its types: prompts, conversations, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.errors import RequestError
from paceline.models import Message
from paceline.types import SamplingParams
from paceline.values import conform, is_integer

Prompt = str | Sequence[int]
Conversation = Sequence[Message]


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt or several, as a list; a list of ids is one prompt.

    Raises:
        RequestError: something in it is neither text nor ids.
    """
    given = conform("prompts", prompts, str | tuple[Any, ...], RequestError)
    if isinstance(given, str):
        return [given]
    ids = [is_integer(item) for item in given]
    if any(ids) and not all(ids):
        raise RequestError("A list of prompts holds ids beside prompts; give one or the other.")
    if any(ids):
        return [conform("prompts", given, tuple[int, ...], RequestError)]
    kind = str | tuple[int, ...]
    return [conform(f"prompts[{i}]", p, kind, RequestError) for i, p in enumerate(given)]


def as_conversations(messages: Conversation | Sequence[Conversation]) -> list[Conversation]:
    """One conversation or several, as a list; raises RequestError for what is no conversation."""
    given = conform("messages", messages, tuple[Any, ...], RequestError)
    single = [isinstance(item, Mapping) for item in given]
    if any(single) and not all(single):
        raise RequestError("A list of conversations holds messages beside conversations.")
    if all(single):
        return [given]
    kind = tuple[Mapping[str, Any], ...]
    return [conform(f"messages[{i}]", m, kind, RequestError) for i, m in enumerate(given)]


def spread(
    params: SamplingParams | Sequence[SamplingParams] | None, count: int
) -> Sequence[SamplingParams]:
    """One setting for each of `count` prompts; raises RequestError for another number of them."""
    kind = SamplingParams | tuple[SamplingParams, ...] | None
    settings = conform("params", params, kind, RequestError)
    if not isinstance(settings, tuple):
        return [settings or SamplingParams()] * count
    if len(settings) != count:
        raise RequestError(f"{count} prompts came with {len(settings)} sampling params.")
    return settings
