"""Toy models under real sampling settings: their laws are those of `to_probs`, to the last bit.

Each row of a pass gets the prefix that the engine would give it, so the settings that look back see
the prompt, the output and the row's own drafted path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import torch
from torch import Tensor

from paceline.certify.toys import Model, Tokens
from paceline.chooser.bits import hash_key
from paceline.sampling import History, Prefix, SettingIds, to_probs
from paceline.sampling.grammar import Matcher
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams
from paceline.verify.laws import Dense

ToyLogits = Callable[[Tokens], Tensor]
"""logits[V] after a prefix."""
RowLaws = Callable[[Tokens, tuple[Tokens, ...]], Sequence[Dense]]
"""The laws[V] after an output and each of some paths from it, as one pass asks for them."""

PROMPT: Tokens = (0,)
"""What stands before every toy output; the repetition penalty and the thinking budget see it."""
IDS = SettingIds(ends=(0,), bad_words=((0, 1), (1, 1)), thinking=((0,), (1,)))
"""What the texts in settings mean in ids; the prompt opens a thought."""


def shunned(output: list[int], row: Tensor) -> Tensor:
    """A custom processor: an id loses what the one before it in the output is worth."""
    if output:
        row[output[-1]] -= 1 + sum(output) % 2
    return row


class Restless(Matcher):
    """A toy grammar in the place of a real one's state: the id just written may not follow."""

    def __init__(self, output: Tokens, V: int) -> None:
        self._output, self._size = output, V

    def mask_for(self, path: Sequence[int]) -> Tensor:
        """mask[V] of the ids allowed after the output and `path`."""
        last = (*self._output, *path)[-1:]
        return torch.tensor([last != (i,) for i in range(self._size)])


SETTINGS: Mapping[str, SamplingParams] = {
    "none": SamplingParams(),
    "temperature": SamplingParams(temperature=0.6),
    "temperature 0": SamplingParams(temperature=0),
    "top-k": SamplingParams(top_k=2),
    "top-p": SamplingParams(top_p=0.7),
    "min-p": SamplingParams(min_p=0.4),
    "typical-p": SamplingParams(typical_p=0.5),
    "all truncations": SamplingParams(temperature=1.7, min_p=0.1, top_k=2, top_p=0.9),
    "presence penalty": SamplingParams(presence_penalty=1.5),
    "frequency penalty": SamplingParams(frequency_penalty=0.75),
    "repetition penalty": SamplingParams(repetition_penalty=2.0),
    "logit bias": SamplingParams(logit_bias={0: 1.5, 1: -1.0}),
    "allowed ids": SamplingParams(allowed_token_ids=(0, 1)),
    "bad words": SamplingParams(bad_words=("ab", "bb")),
    "min tokens": SamplingParams(min_tokens=2),
    "thinking budget": SamplingParams(thinking_budget=1),
    "custom processor": SamplingParams(logits_processors=(shunned,)),
    "grammar": SamplingParams(structured=StructuredOutput(regex="(?:a|b|c)*")),
    "penalties, bias and truncations": SamplingParams(
        frequency_penalty=0.75,
        repetition_penalty=1.5,
        logit_bias={1: 1.0},
        temperature=1.2,
        min_p=0.2,
    ),
}
"""Whatever is listed here is proved for every rule and every kind of trial."""


def settings_for(one_hot: bool) -> Mapping[str, SamplingParams]:
    """All settings; for rules that keep one-hot laws each of them at temperature 0."""
    if not one_hot:
        return SETTINGS
    return {name: replace(params, temperature=0) for name, params in SETTINGS.items()}


def toy_logits(seed: int, V: int) -> ToyLogits:
    """Logits of either sign that depend on the whole prefix; steps of a half make ties common."""

    @cache
    def logits(prefix: Tokens) -> Tensor:
        return torch.tensor([hash_key(seed, i, *prefix) % 9 / 2 - 2 for i in range(V)])

    return logits


def row_laws(logits: ToyLogits, params: SamplingParams) -> RowLaws:
    """The laws of a pass, from one call of `to_probs` for all of its rows."""

    @cache
    def laws(output: Tokens, paths: tuple[Tokens, ...]) -> Sequence[Dense]:
        rows = torch.stack([logits(output + path) for path in paths])  # [N, V]
        history = history_of(output, params, rows.shape[1])
        before = [Prefix(history, path) for path in paths]
        return [exactly(law) for law in to_probs(rows, [params] * len(paths), before)]

    return laws


def history_of(output: Tokens, params: SamplingParams, V: int) -> History:
    """The prompt and an output, as the settings of a request see them."""
    matcher = Restless(output, V) if params.structured else None
    return History([*PROMPT, *output], len(PROMPT), IDS, matcher)


def settled(laws: RowLaws) -> Model:
    """The same laws one prefix at a time, nothing drafted: what plain decoding samples from."""
    return lambda prefix: laws(prefix, ((),))[0]


def exactly(law: Tensor) -> Dense:
    """law[V] as the exact fractions of its floats, renormalised."""
    weights: Dense = np.array([Fraction(p) for p in law.tolist()], dtype=object)
    weights /= weights.sum()
    weights.setflags(write=False)
    return weights
