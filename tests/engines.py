"""Engines on the oracle, the drafters that test them, and plain decoding by its definition."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from paceline.chooser import Keyed
from paceline.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculationConfig
from paceline.drafters import DraftContext, Needs, PerContext, register
from paceline.engine import Engine
from paceline.sampling import to_probs
from paceline.tree import NO_DRAFT, Draft, DraftBuilder
from paceline.types import Output, Request, SamplingParams, Speculation
from paceline.verify import rules
from tests.oracle import Oracle

TARGET = Oracle()


@register("test_forest")
@dataclass(frozen=True)
class Forest(PerContext):
    """Random trees of point masses, many of them right: the oracle's own argmax among them."""

    k: int = 6
    needs = Needs(trees=True)

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        rng = random.Random(repr(list(ctx.tokens)))
        builder, paths = DraftBuilder(), [[]]  # type: ignore[var-annotated]
        for _ in range(rng.randint(0, budget)):
            parent = rng.randrange(len(paths))
            logits = TARGET.logits([*ctx.tokens, *paths[parent]])
            token = int(logits.topk(3).indices[rng.randrange(3)])
            if builder.point(parent, token) == len(paths):
                paths.append([*paths[parent], token])
        return builder.build()


@register("test_sampler")
@dataclass(frozen=True)
class Sampler(PerContext):
    """A chain sampled from another oracle's laws."""

    k: int = 3

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        builder, tokens = DraftBuilder(), list(ctx.tokens)
        for depth in range(budget):
            law = ctx.law(replace(TARGET, salt=1).logits(tokens))
            row = ctx.draw(builder, depth, depth, law)
            tokens.append(builder.token(row))
        return builder.build()


@register("test_greedless")
@dataclass(frozen=True)
class TooMany(PerContext):
    """Breaks its budget."""

    k: int = 2

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        builder = DraftBuilder()
        for depth in range(budget + 1):
            builder.point(depth, 0)
        return builder.build()


def engine(*drafts: str, target: Oracle = TARGET, blocks: int = 64, **scheduler: Any) -> Engine:
    config = EngineConfig(
        cache=CacheConfig(num_blocks=blocks, block_tokens=4),
        scheduler=SchedulerConfig(**{"max_rows": 32, **scheduler}),
        speculation=SpeculationConfig(drafts=drafts),
    )
    return Engine(target, config)  # type: ignore[arg-type]


def run(engine: Engine, *requests: Request) -> list[Output]:
    for request in requests:
        engine.add(request)
    while engine.has_work:
        engine.step()
    engine.pool.check_idle()
    return [engine.take(request.id) for request in requests]


def request(
    name: str, prompt: str = "abc", speculation: Speculation | None = None, **params: Any
) -> Request:
    return Request(
        id=name,
        prompt_ids=tuple(TARGET.tokenizer.encode(prompt)),
        params=SamplingParams(**{"max_tokens": 20, **params}),
        speculation=speculation or Speculation(),
    )


def expected(prompt: str, params: SamplingParams, target: Oracle = TARGET) -> list[int]:
    """Plain decoding by its definition: the rule on an empty draft, token by token."""
    rule = rules["greedy" if params.temperature == 0 else "coupled"]
    tokens, output = target.tokenizer.encode(prompt), []
    while len(output) < params.max_tokens and len(tokens) < target.max_model_len:
        law = to_probs(target.logits(tokens)[None], [params])
        chooser = Keyed(params.seed or 0, 0, len(output))
        token = rule.verify_one(NO_DRAFT, law.numpy(), chooser).token
        output.append(token)
        tokens.append(token)
        if token in target.eos_ids:
            break
    return output
