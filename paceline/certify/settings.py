"""Toy models under real sampling settings: their laws are those of `to_probs`, to the last bit."""

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
from paceline.sampling import to_probs
from paceline.types import SamplingParams
from paceline.verify.laws import Dense

ToyLogits = Callable[[Tokens], Tensor]
"""logits[V] after a prefix."""
RowLaws = Callable[[Tokens, tuple[Tokens, ...]], Sequence[Dense]]
"""The laws[V] after an output and each of some paths from it, as one pass asks for them."""

SETTINGS: Mapping[str, SamplingParams] = {
    "none": SamplingParams(),
    "temperature": SamplingParams(temperature=0.6),
    "temperature 0": SamplingParams(temperature=0),
    "top-k": SamplingParams(top_k=2),
    "top-p": SamplingParams(top_p=0.7),
    "min-p": SamplingParams(min_p=0.4),
    "all truncations": SamplingParams(temperature=1.7, min_p=0.1, top_k=2, top_p=0.9),
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
        return [exactly(law) for law in to_probs(rows, [params] * len(paths))]

    return laws


def settled(laws: RowLaws) -> Model:
    """The same laws one prefix at a time, nothing drafted: what plain decoding samples from."""
    return lambda prefix: laws(prefix, ((),))[0]


def exactly(law: Tensor) -> Dense:
    """law[V] as the exact fractions of its floats, renormalised."""
    weights: Dense = np.array([Fraction(p) for p in law.tolist()], dtype=object)
    weights /= weights.sum()
    weights.setflags(write=False)
    return weights
