"""An oracle with habits, whose text repeats itself, and every drafter on it.

Text is then worth drafting: each drafter is right now and then, and wrong now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from paceline.chooser import Keyed
from paceline.drafters import DraftContext, Needs, PerContext, register
from paceline.engine import Engine
from paceline.sampling import History, Prefix, SettingIds, to_probs
from paceline.tree import NO_DRAFT, Draft, DraftBuilder
from paceline.types import Request, SamplingParams, Speculation
from paceline.verify import rules
from tests.engines import engine
from tests.oracle import Letters, Oracle, noise

V, EOS = 8, 7
MARKS = {"<think>": 5, "</think>": 6}
PROMPTS = ("abc", "abcabcabcabcabcabc", "b", "deadfaced", "cab")


@dataclass
class Habitual(Oracle):
    """Its next letter hangs mostly on the last two; the rest of the prefix has a say, too."""

    vocab_size: int = V
    eos_ids: frozenset[int] = frozenset({EOS})
    tokenizer: Letters = field(default_factory=lambda: Letters(V, MARKS))
    mood: float = 0.5

    def logits(self, tokens: Sequence[int]) -> Tensor:
        habit = noise(self.salt, tuple(tokens[-2:]), self.vocab_size) * 3.0
        return habit + self.mood * noise(self.salt + 1, tuple(tokens), self.vocab_size)


HABIT, OTHER = Habitual(), Habitual(salt=2, mood=0.0)
"""A target, and a model that has its vocabulary and other habits."""
LIKE = Habitual(mood=0.0)
"""A draft model: the habits without the mood."""


@register("test_branches")
@dataclass(frozen=True)
class Branches(PerContext):
    """Under each node of a short chain a point mass, a draw and, of the same law, another draw."""

    k: int = 6
    needs = Needs(trees=True)

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        builder, row, path = DraftBuilder(), 0, ()
        for depth in range(budget // 3):
            logits = LIKE.logits([*ctx.tokens, *path])
            law = ctx.law(logits, path)
            builder.point(row, int(logits.argmax()))
            ctx.draw(builder, row, depth, law)
            row = ctx.draw(builder, row, depth, law)
            path = (*path, builder.token(row))
        return builder.build()


DRAFTERS = ("model:like", "ngram:k=4", "suffix", "suffix:tree=false", "prediction", "test_branches")
MODELS = {"like": LIKE, "other": OTHER, "short": replace(LIKE, max_model_len=20)}


def load(name: str, **_: Any) -> Oracle:
    return MODELS[name]


def habits(*drafts: str, target: Oracle = HABIT, **settings: Any) -> Engine:
    """An engine on the habitual oracle; see `tests.engines.engine` for the settings."""
    with patch("paceline.drafters.model.load_model", load):
        return engine(*(drafts or DRAFTERS), target=target, **settings)


def ask(name: str, prompt: str = "abc", drafter: str = "none", **settings: Any) -> Request:
    """A request; `k`, `rule` and `prediction` go to its speculation."""
    asked = {key: settings.pop(key) for key in ("k", "rule", "prediction") if key in settings}
    if drafter == "prediction":
        asked.setdefault("prediction", guess(prompt, SamplingParams(**settings)))
    return Request(
        id=name,
        prompt_ids=tuple(HABIT.tokenizer.encode(prompt)),
        params=SamplingParams(**{"max_tokens": 24, **settings}),
        speculation=Speculation(drafter=drafter, **asked),
    )


def guess(prompt: str, params: SamplingParams) -> tuple[int, ...]:
    """What the model alone would write greedily, with a slip after every five letters."""
    tokens = HABIT.tokenizer.encode(prompt)
    for at in range(min(params.max_tokens, HABIT.max_model_len - len(tokens))):
        best = int(HABIT.logits(tokens).argmax())
        tokens.append((best + 1) % V if at % 6 == 5 else best)
    return tuple(tokens[len(prompt) :])


def law_after(tokens: Sequence[int], prompt_tokens: int, params: SamplingParams) -> Tensor:
    """The target's law[V] by the pipeline, on a history written out anew."""
    ends = tuple(sorted({*(() if params.ignore_eos else (EOS,)), *params.stop_token_ids}))
    words = tuple(tuple(HABIT.tokenizer.encode(word)) for word in params.bad_words)
    thinking = ((MARKS["<think>"],), (MARKS["</think>"],))
    ids = SettingIds(ends=ends, bad_words=words, thinking=thinking)
    prefix = Prefix(History(tokens, prompt_tokens, ids))
    return to_probs(HABIT.logits(tokens)[None], [params], [prefix])[0]


def alone(prompt: str, **settings: Any) -> list[int]:
    """Plain decoding by its definition: the rule on an empty draft, token by token."""
    params = SamplingParams(**{"max_tokens": 24, **settings})
    rule = rules["greedy" if params.temperature == 0 else "coupled"]
    tokens, output = HABIT.tokenizer.encode(prompt), list[int]()
    ends = {*params.stop_token_ids, *(() if params.ignore_eos else HABIT.eos_ids)}
    while len(output) < params.max_tokens and len(tokens) < HABIT.max_model_len:
        law = law_after(tokens, len(prompt), params)
        chooser = Keyed(params.seed or 0, 0, len(output))
        output.append(rule.verify_one(NO_DRAFT, law[None].numpy(), chooser).token)
        tokens.append(output[-1])
        if output[-1] in ends:
            break
    return output


def logprobs_after(tokens: Sequence[int]) -> Tensor:
    """The target's own log-probabilities[V]."""
    return torch.log_softmax(HABIT.logits(tokens).double(), -1)
