"""The best fixed draft length for measured costs: by batch size, and where to switch off."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from paceline.errors import ConfigError
from paceline.plan.beta import Beta, Interval, solve
from paceline.plan.costs import CostCurve, DraftCosts, PassCosts
from paceline.plan.estimators import extended
from paceline.plan.throughput import (
    expected_tokens,
    expected_tokens_conditional,
    tokens_by_length,
)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What target passes and drafts cost, and the context they are to be priced at."""

    target: PassCosts
    draft: DraftCosts
    context_tokens: float = 0.0
    """Of one request."""

    def step_ms(self, batch: int, k: int) -> float:
        """A step that drafts k tokens for each of `batch` requests and verifies them."""
        context = batch * self.context_tokens
        return self.target.ms(batch * (k + 1), context) + self.draft.equal_ms(k, batch, context)

    def growth(self, batch: int, k: int) -> float:
        """That step in plain ones; the tokens a request must commit by it to break even."""
        return self.step_ms(batch, k) / self.step_ms(batch, 0)


@dataclass(frozen=True)
class Length:
    """A draft length and what is expected of it."""

    batch: int
    k: int
    tokens: float
    """Committed per request and pass."""
    step_ms: float
    speedup: float
    """Over plain decoding at the same batch size."""

    @property
    def tokens_per_s(self) -> float:
        """All requests together."""
        return 1e3 * self.batch * self.tokens / self.step_ms


def length(alphas: Sequence[float], batch: int, k: int, costs: Costs) -> Length:
    """What k is worth: S = E C_T(b) / (C_T(b(k+1)) + C_draft(b, k)).

    alphas (.8,), flat passes of 30 ms, drafts of 1 ms, batch 1, k = 4: 3.362 tokens in 34 ms,
    2.966 times plain decoding.
    """
    tokens = expected_tokens_conditional(extended(alphas, k)) if k else 1.0
    return priced(tokens, batch, k, costs)


def priced(tokens: float, batch: int, k: int, costs: Costs) -> Length:
    """A length that commits so many tokens per request and pass."""
    return Length(batch, k, tokens, costs.step_ms(batch, k), tokens / costs.growth(batch, k))


def best_length(alphas: Sequence[float], batch: int, costs: Costs, max_k: int = 16) -> Length:
    """The k in 0 .. max_k of the highest speedup; every one is tried, for costs may have steps."""
    expected = tokens_by_length(extended(alphas, max_k))
    lengths = [priced(tokens, batch, k, costs) for k, tokens in enumerate(expected)]
    return max(lengths, key=lambda one: one.speedup)


def by_batch(
    alphas: Sequence[float], batches: Iterable[int], costs: Costs, max_k: int = 16
) -> list[Length]:
    """The best length at each batch size."""
    return [best_length(alphas, batch, costs, max_k) for batch in batches]


def switch_off_batch(
    alphas: Sequence[float], costs: Costs, max_batch: int = 1024, max_k: int = 16
) -> int | None:
    """The batch size from which on no draft pays; None if one still does at `max_batch`.

    It is sought at sizes that double, then by halving after the last one that drafts. Passes of
    10 ms up to 8 rows and 1.25 ms a row beyond, alpha .5, free drafts: batch 6, whose 12 rows take
    15 ms for 1.5 tokens a request.
    """

    def idle(batch: int) -> bool:
        return best_length(alphas, batch, costs, max_k).k == 0

    low, high = 0, max_batch
    if not idle(high):
        return None
    for power in reversed(range(max_batch.bit_length())):
        if not idle(1 << power):
            low = 1 << power
            break
        high = 1 << power
    return bisect_left(range(high), True, lo=low + 1, key=idle)


def break_even_alpha_at(batch: int, k: int, costs: Costs) -> float | None:
    """The constant alpha above which k pays at these costs; None if not even alpha = 1 does.

    The root of E(alpha, k) = step(b, k) / step(b, 0); on flat passes `break_even_alpha`.

    Raises:
        ConfigError: k < 1.
    """
    if k < 1:
        raise ConfigError(f"Break-even is for k >= 1, not {k}.")
    growth = costs.growth(batch, k)
    if growth >= k + 1:
        return None
    return 0.0 if growth <= 1 else solve(lambda a: expected_tokens(a, k), growth, 0.0, 1.0)


def speedup_interval(
    alphas: Sequence[Beta], batch: int, k: int, costs: Costs, level: float = 0.9, seed: int = 0
) -> Interval:
    """Speedup with what is not known of acceptance and of costs, by 2000 seeded draws.

    Every draw takes each position's alpha from its posterior and, where the target's curve has
    errors of its own, one of those for the drafted step and one for the plain one.
    """
    if k == 0:
        return Interval(1.0, 1.0, 1.0)
    rng, growth = random.Random(seed), costs.growth(batch, k)
    errors = costs.target.errors if isinstance(costs.target, CostCurve) else ()
    draws = []
    for _ in range(2000):
        drawn = extended([rng.betavariate(one.a, one.b) for one in alphas], k)
        draws.append(expected_tokens_conditional(drawn) / (growth * noise(errors, rng)))
    draws.sort()
    tail = round((1 - level) / 2 * len(draws))
    return Interval(draws[tail], median(draws), draws[-1 - tail])


def noise(errors: Sequence[float], rng: random.Random) -> float:
    """The ratio of two costs' errors, each drawn with either sign."""
    if not errors:
        return 1.0
    up, down = (1 + rng.choice((-1, 1)) * min(0.9, rng.choice(errors)) for _ in range(2))
    return up / down
