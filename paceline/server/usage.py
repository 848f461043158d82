"""What a reply cost, in OpenAI's fields and in the engine's own counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.drafters import PREDICTION
from paceline.metrics import speculation_record
from paceline.server.names import DrafterNames, kind_of
from paceline.types import Output, Request


def usage_of(
    requests: Sequence[Request], outputs: Sequence[Output], names: DrafterNames
) -> dict[str, Any]:
    """The usage of all outputs of a reply; a prompt counts once, however many samples it has."""
    prompts = [output for output in outputs if output.choice == 0]
    prompt_tokens = sum(output.prompt_tokens for output in prompts)
    completion_tokens = sum(len(output.token_ids) for output in outputs)
    record = speculation_record(outputs)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(p.cached_tokens for p in prompts)},
        "completion_tokens_details": _prediction(requests, outputs),
        "speculation": record | {"drafter": names.name_of(record["drafter"])},
    }


def _prediction(requests: Sequence[Request], outputs: Sequence[Output]) -> dict[str, int]:
    """Tokens of the predictions that are in the outputs, and those that are not.

    One that repeats itself takes guessed tokens again; no more are counted than were guessed.
    """
    accepted = rejected = 0
    for request, output in zip(requests, outputs, strict=True):
        drafts = output.by_drafter.items()
        own = sum(counts.accepted for name, counts in drafts if kind_of(name) == PREDICTION)
        guessed = len(request.speculation.prediction)
        accepted += min(own, guessed)
        rejected += max(0, guessed - own)
    return {"accepted_prediction_tokens": accepted, "rejected_prediction_tokens": rejected}
