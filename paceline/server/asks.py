"""A request's body as the engine's own values."""

from __future__ import annotations

from typing import Any

from paceline.drafters import OFF, PREDICTION
from paceline.models import Tokenizer
from paceline.server.failures import ApiError
from paceline.server.messages import Content
from paceline.server.names import DrafterNames
from paceline.server.schemas import JsonObjectFormat, JsonSchemaFormat, Sampling
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams, Speculation

DIRECT = (
    *("temperature", "top_p", "top_k", "min_p", "typical_p", "presence_penalty"),
    *("frequency_penalty", "repetition_penalty", "bad_words", "allowed_token_ids", "min_tokens"),
    *("thinking_budget", "stop", "stop_token_ids", "ignore_eos", "processed_logprobs", "seed"),
    "n",
)
"""Fields that are settings of SamplingParams as they stand; null leaves the default."""


def params_of(ask: Sampling, **own: Any) -> SamplingParams:
    """The settings of a body, with those the endpoint says in its `own` way.

    Raises:
        RequestError: a value is out of its range.
    """
    given = {name: getattr(ask, name) for name in DIRECT if getattr(ask, name) is not None}
    if ask.logit_bias:
        given["logit_bias"] = {int(token): bias for token, bias in ask.logit_bias.items()}
    return SamplingParams(**{"structured": structured_of(ask), **given, **own})


def structured_of(ask: Sampling) -> StructuredOutput | None:
    """The form that the output must have; raises RequestError for a bad one."""
    if isinstance(ask.response_format, JsonObjectFormat):
        return StructuredOutput(json_object=True)
    if isinstance(ask.response_format, JsonSchemaFormat):
        return StructuredOutput(json_schema=ask.response_format.json_schema.schema_)
    if (form := ask.structured_outputs) is None:
        return None
    return StructuredOutput(
        json_schema=form.json_,
        json_object=bool(form.json_object),
        regex=form.regex,
        choice=tuple(form.choice or ()),
        grammar=form.grammar,
        disable_any_whitespace=form.disable_any_whitespace,
    )


def speculation_of(ask: Sampling, names: DrafterNames, tokenizer: Tokenizer) -> Speculation:
    """How the request is drafted.

    Raises:
        ApiError: a drafter that is not loaded, or one that would not read the prediction.
        RequestError: a value the engine does not know.
    """
    wanted = ask.speculation
    guess = tokenizer.encode(text_of(ask.prediction.content)) if ask.prediction else []
    if wanted is not None and not wanted.enabled:
        return Speculation(drafter=OFF)
    drafter = wanted.drafter if wanted else None
    if guess and drafter not in (None, PREDICTION):
        raise ApiError(
            400,
            f"The drafter '{drafter}' does not read a prediction; leave one of them out.",
            "prediction.content",
        )
    if drafter == PREDICTION and guess:
        drafter = None  # the engine's default for a request that has a guess
    return Speculation(
        drafter=names.draft_of(drafter) if drafter else None,
        k=wanted.k if wanted else None,
        rule=wanted.rule if wanted else None,
        prediction=tuple(guess),
    )


def text_of(content: Content | None) -> str:
    """A message's text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)
