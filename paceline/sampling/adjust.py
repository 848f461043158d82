"""Settings that change logits by what stands before the position, one function each.

They run in vLLM's order (v1 `Sampler`, steps 3 to 6), before the temperature and for temperature 0
too: the grammar, allowed ids, bad words, the thinking budget, min_tokens, logit_bias, custom
processors, then repetition, frequency and presence penalties. Each works on one row, logits[V]
float32, in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from paceline.errors import RequestError
from paceline.sampling.prefix import Prefix
from paceline.types import SamplingParams

NEVER = -torch.inf


def adjust(
    logits: Tensor, params: Sequence[SamplingParams], prefixes: Sequence[Prefix] | None
) -> Tensor:
    """logits[N, V] as the rows' settings want them; the tensor itself where none wants a change.

    Raises:
        RequestError: a custom processor failed or returned what is no row of logits, or the
            settings leave no id.
        ValueError: a row's settings depend on its prefix and none was given.
    """
    rows = [row for row, p in enumerate(params) if p.adjusts]
    if not rows:
        return logits
    if prefixes is None:
        raise ValueError("These settings depend on the tokens before a row; give its prefix.")
    adjusted = logits.to(torch.float32, copy=True)
    for row in rows:
        for setting in SETTINGS:
            setting(adjusted[row], params[row], prefixes[row])
        check_peak(adjusted[row], logits[row], params[row])
    return adjusted


def check_peak(row: Tensor, before: Tensor, params: SamplingParams) -> None:
    """Raise RequestError where the settings made logits[V] of which no law can be made."""
    peak = float(row.max())
    if math.isfinite(peak) or not math.isfinite(before.max()):
        return
    names = " and ".join(params.adjusting)
    found = "leave no id" if peak == NEVER else f"make a logit of {peak}"
    raise RequestError(f"{names} {found} at this position; loosen what they ask for.")


def structured(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Only ids that the grammar allows behind the node's own path."""
    if prefix.history.matcher is not None:
        allowed = prefix.history.matcher.mask_for(prefix.path)
        row.masked_fill_(~allowed.to(row.device), NEVER)


def allowed_token_ids(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Nothing but these."""
    if params.allowed_token_ids:
        keep_only(row, on(row, np.asarray(params.allowed_ids)))


def bad_words(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """The last id of a bad word is forbidden where the output ends with the ids before it."""
    words = prefix.history.ids.bad_words if params.bad_words else ()
    last = [word[-1] for word in words if prefix.ends_with(word[:-1])]
    if last:
        row[last] = NEVER


def thinking_budget(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Once a thought has taken its tokens, the ids that close it and nothing else."""
    if params.thinking_budget is None:
        return
    closing = prefix.history.ids.thinking[1]
    thought = prefix.thought_tokens()
    if thought is None or thought < params.thinking_budget:
        return
    begun = [n for n in range(1, len(closing)) if prefix.ends_with(closing[:n])]
    begun = [n for n in begun if thought - n >= params.thinking_budget]
    keep_only(row, torch.tensor([closing[max(begun, default=0)]], device=row.device))


def min_tokens(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """No id that ends the output before it is long enough."""
    if prefix.output_tokens < params.min_tokens and prefix.history.ids.ends:
        row[list(prefix.history.ids.ends)] = NEVER


def logit_bias(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Added to the logits of some ids."""
    if params.logit_bias:
        ids = torch.tensor(list(params.logit_bias), device=row.device)
        row[ids] += torch.tensor(list(params.logit_bias.values()), device=row.device)


def logits_processors(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Called with the output before the node, its drafted path included."""
    for processor in params.logits_processors:
        try:
            found = processor(prefix.output, row.clone())
        except Exception as error:
            raise RequestError(f"The logits processor {processor!r} failed: {error!r}.") from error
        if not isinstance(found, Tensor) or found.shape != row.shape:
            raise RequestError(
                f"The logits processor {processor!r} must return logits of {list(row.shape)}."
            )
        row.copy_(found)


def repetition_penalty(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Logits of ids in prompt or output: divided if positive, else multiplied (1909.05858)."""
    if params.repetition_penalty != 1:
        ids = on(row, prefix.history.all_counts(prefix.path)[0])
        found = row[ids]
        penalty = params.repetition_penalty
        row[ids] = torch.where(found > 0, found / penalty, found * penalty)


def frequency_penalty(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Subtracted for each time that an id is in the output."""
    if params.frequency_penalty:
        ids, counts = prefix.history.output_counts(prefix.path)
        row[on(row, ids)] -= params.frequency_penalty * on(row, counts).float()


def presence_penalty(row: Tensor, params: SamplingParams, prefix: Prefix) -> None:
    """Subtracted once from ids that are in the output."""
    if params.presence_penalty:
        row[on(row, prefix.history.output_counts(prefix.path)[0])] -= params.presence_penalty


SETTINGS: tuple[Callable[[Tensor, SamplingParams, Prefix], None], ...] = (
    structured,
    allowed_token_ids,
    bad_words,
    thinking_budget,
    min_tokens,
    logit_bias,
    logits_processors,
    repetition_penalty,
    frequency_penalty,
    presence_penalty,
)
"""In the order in which they are applied."""


def keep_only(row: Tensor, ids: Tensor) -> None:
    """Forbid all ids in logits[V] but ids[U]."""
    kept = row[ids]
    row.fill_(NEVER)
    row[ids] = kept


def on(row: Tensor, values: np.ndarray) -> Tensor:
    """An array beside the row."""
    return torch.from_numpy(values).to(row.device)
