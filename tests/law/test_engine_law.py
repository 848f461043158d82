"""The engine's sampled text has the target's law, whatever drafts and by whichever rule.

The joint law of the first three tokens is known exactly (27 outcomes). Each G-test has 26 degrees
of freedom and a false-alarm rate of 1e-4; with 2,000 samples a total variation of 0.085 is found
with a power above 0.9 (noncentrality about 4 n TV^2 = 58). Seeds are fixed, so runs do not differ.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

from paceline.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculationConfig
from paceline.drafters import DraftContext, Needs, PerContext, register
from paceline.engine import Engine
from paceline.sampling import to_probs
from paceline.tree import Draft, DraftBuilder
from paceline.types import Request, SamplingParams, Speculation
from tests.oracle import Oracle

V, TOKENS, SAMPLES = 3, 3, 2_000
CRITICAL = 61.66
"""The 1 - 1e-4 quantile of chi-square with 26 degrees of freedom."""
TARGET = Oracle(vocab_size=V, max_model_len=16, sharpness=1.0)
PROMPT = (0, 1)


@register("test_law_chain")
@dataclass(frozen=True)
class LawChain(PerContext):
    """Two sampled tokens, then a point mass."""

    k: int = 3

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        builder, tokens = DraftBuilder(), list(ctx.tokens)
        for depth in range(budget):
            law = ctx.law(replace(TARGET, salt=7).logits(tokens))
            if depth < 2:
                row = ctx.draw(builder, depth, depth, law)
            else:
                row = builder.point(depth, int(law.argmax()))
            tokens.append(builder.token(row))
        return builder.build()


@register("test_law_tree")
@dataclass(frozen=True)
class LawTree(PerContext):
    """At the root a point mass and two sampled siblings; a sampled child under each of them."""

    k: int = 6
    needs = Needs(trees=True)

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        if budget < self.k:
            return DraftBuilder().build()
        builder, tokens = DraftBuilder(), list(ctx.tokens)
        law = ctx.law(replace(TARGET, salt=7).logits(tokens))
        rows = [builder.point(0, 1), ctx.draw(builder, 0, 0, law), ctx.draw(builder, 0, 0, law)]
        for row in dict.fromkeys(rows):
            deeper = replace(TARGET, salt=7).logits([*tokens, builder.token(row)])
            ctx.draw(builder, row, 1, ctx.law(deeper))
        return builder.build()


def exact(params: SamplingParams) -> dict[tuple[int, ...], float]:
    """The target's law of the first tokens, by the chain rule."""
    law = {}
    for outcome in itertools.product(range(V), repeat=TOKENS):
        mass = 1.0
        for n, token in enumerate(outcome):
            logits = TARGET.logits([*PROMPT, *outcome[:n]])
            mass *= float(to_probs(logits[None], [params])[0, token])
        law[outcome] = mass
    return law


def sample(drafter: str, rule: str, params: SamplingParams) -> Counter[tuple[int, ...]]:
    config = EngineConfig(
        cache=CacheConfig(num_blocks=256, block_tokens=4),
        scheduler=SchedulerConfig(max_num_requests=64),
        speculation=SpeculationConfig(drafts=(drafter,)),
    )
    engine = Engine(TARGET, config)  # type: ignore[arg-type]
    for seed in range(SAMPLES):
        engine.add(
            Request(
                id=str(seed),
                prompt_ids=PROMPT,
                params=replace(params, seed=seed),
                speculation=Speculation(rule=rule),
            )
        )
    while engine.has_work:
        engine.step()
    return Counter(engine.take(str(seed)).token_ids[:TOKENS] for seed in range(SAMPLES))


def g_statistic(counts: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    total = sum(counts.values())
    assert set(counts) <= {outcome for outcome, mass in law.items() if mass > 0}
    return 2 * sum(n * np.log(n / (total * law[outcome])) for outcome, n in counts.items())


@pytest.mark.parametrize(
    ("drafter", "rule"),
    [
        ("none", "block"),
        ("test_law_chain", "token"),
        ("test_law_chain", "block"),
        ("test_law_chain", "multi"),
        ("test_law_chain", "coupled"),
        ("test_law_tree", "multi"),
        ("test_law_tree", "traversal"),
        ("test_law_tree", "coupled"),
    ],
)
def test_the_joint_law_is_the_targets(drafter: str, rule: str) -> None:
    params = SamplingParams(temperature=1.2, max_tokens=4)
    assert g_statistic(sample(drafter, rule, params), exact(params)) < CRITICAL


def test_the_test_finds_a_law_that_is_off() -> None:
    """Its own power: samples at temperature 1.2 are told from the law at temperature 2."""
    params = SamplingParams(temperature=1.2, max_tokens=4)
    other = exact(replace(params, temperature=2.0))
    off = sum(abs(m - other[o]) for o, m in exact(params).items()) / 2
    assert 0.085 < off < 0.2
    assert g_statistic(sample("test_law_chain", "block", params), other) > CRITICAL
