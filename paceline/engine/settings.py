"""A request's settings in the model's own ids, checked against its vocabulary."""

from __future__ import annotations

from paceline.errors import RequestError
from paceline.models import Tokenizer
from paceline.sampling import SettingIds
from paceline.types import SamplingParams, Speculation

THINKING = "<think>", "</think>"
"""The marks of the models that think aloud."""


def setting_ids(
    params: SamplingParams, tokenizer: Tokenizer, eos_ids: frozenset[int]
) -> SettingIds:
    """Resolve what is written as text; raises RequestError for a budget without thoughts."""
    own = () if params.ignore_eos else eos_ids
    return SettingIds(
        ends=tuple(sorted({*own, *params.stop_token_ids})),
        bad_words=tuple(ids for word in params.bad_words for ids in word_ids(word, tokenizer)),
        thinking=thinking_ids(params, tokenizer),
    )


def check_ids(params: SamplingParams, vocab_size: int) -> None:
    """Raise RequestError for an id that the model does not have, or more ids than it has."""
    allowed = len(params.allowed_token_ids)
    if allowed > vocab_size:
        raise RequestError(
            f"allowed_token_ids has {allowed} ids, but the model {vocab_size}; name each id once."
        )
    for name in ("stop_token_ids", "allowed_token_ids", "logit_bias"):
        for token in getattr(params, name):
            if not 0 <= token < vocab_size:
                raise RequestError(f"{name} names the id {token}, not in 0 .. {vocab_size - 1}.")


def prediction_ids(asked: Speculation, tokenizer: Tokenizer, max_model_len: int) -> tuple[int, ...]:
    """The guess of the output; raises RequestError for one that no output is long enough for."""
    guess = asked.prediction
    ids = tuple(tokenizer.encode(guess) if isinstance(guess, str) else guess)
    if len(ids) > max_model_len:
        raise RequestError(
            f"prediction has {len(ids)} tokens, but the context holds {max_model_len};"
            f" shorten it to {max_model_len} or fewer."
        )
    return ids


def check_structured(params: SamplingParams) -> None:
    """Raise RequestError for settings that keep a structured output from ending where it must."""
    if params.structured is None:
        return
    for name, is_set in (("ignore_eos", params.ignore_eos), ("min_tokens", params.min_tokens)):
        if is_set:
            raise RequestError(
                f"{name} cannot be combined with structured output, which ends where its grammar"
                " does; leave one of them out."
            )


def word_ids(word: str, tokenizer: Tokenizer) -> list[tuple[int, ...]]:
    """The word's ids, and those it has behind a blank where it then is as many tokens (vLLM's)."""
    bare = tuple(tokenizer.encode(word.lstrip() or word))
    spaced = tuple(tokenizer.encode(f" {word.lstrip()}"))
    distinct = len(spaced) == len(bare) and spaced[0] != bare[0]
    return [bare, spaced] if distinct else [bare]


def thinking_ids(
    params: SamplingParams, tokenizer: Tokenizer
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The marks' ids; each must be a token of its own, or a thought could hide in other ids."""
    if params.thinking_budget is None:
        return (), ()
    ids = [tokenizer.token_to_id(mark) for mark in THINKING]
    if None in ids:
        raise RequestError(
            f"thinking_budget needs a model with the tokens {' and '.join(THINKING)}."
        )
    opening, closing = ids
    assert opening is not None
    assert closing is not None
    return (opening,), (closing,)
