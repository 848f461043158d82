"""Spending rows across a batch: the likeliest tokens first, as far as they pay.

A pass over B requests commits B tokens whatever is drafted, and each drafted token adds the
probability that it is accepted, the product along its path. Of all ways to draft n tokens the n
likeliest are worth most, and since a token is never likelier than the one before it they are a
prefix of every request's draft. So one ordered list holds all candidates, and the best budget is
the prefix of it that commits most tokens per millisecond (the goodput of SmartSpec, 2406.14066).
The whole list is looked at, not only up to the first token that does not pay: costs have steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.plan.costs import DraftCosts, PassCosts

NEGLIGIBLE = 0.01
"""Tokens less likely than this are not looked at: no row is so cheap where the choice matters."""


@dataclass(frozen=True)
class Wish:
    """What one request could draft, by one drafter."""

    gains: tuple[float, ...]
    """Expected tokens that each further drafted token adds, falling."""
    rows: tuple[float, ...]
    """Rows each is expected to take: 1, or less where the drafter often has no proposal."""
    drafter: str
    fixed: int = 0
    """So many are drafted whatever they are worth (a length the client pinned)."""

    @classmethod
    def chain(cls, alphas: Sequence[float], drafter: str = "", fixed: int = 0) -> Wish:
        """A chain whose position j is accepted with alphas[j], given all before: gains multiply.

        (.8, .5) adds .8 and then .4.
        """
        gains, survival = [], 1.0
        for alpha in alphas:
            survival *= alpha
            gains.append(survival)
        return cls(tuple(gains), (1.0,) * len(gains), drafter, fixed)


@dataclass(frozen=True)
class Spent:
    """The best budget found and what is expected of it."""

    lengths: tuple[int, ...]
    """Tokens to draft for each request."""
    tokens: float
    """Expected to be committed by the pass, all requests together."""
    ms: float
    """Draft and pass."""

    @property
    def tokens_per_ms(self) -> float:
        """Goodput."""
        return self.tokens / self.ms


def spend(
    wishes: Sequence[Wish],
    costs: PassCosts,
    draft_costs: Mapping[str, DraftCosts],
    context_tokens: float = 0.0,
    max_rows: float = float("inf"),
    prefill: Prefill | None = None,
) -> Spent:
    """The lengths of most tokens per millisecond, all requests of a batch together.

    Four requests of alpha .9, .1, .1 and .1, passes of 10 ms up to 5 rows and 10 more a row beyond,
    free drafts: one token, for the first request, and 4.9 tokens in 10 ms.
    """
    other_rows = prefill.rows if prefill else 0
    pricing = Pricing(costs, draft_costs, context_tokens, len(wishes), other_rows)
    return best_prefix(wishes, pricing, max_rows, prefill)


@dataclass(frozen=True)
class Prefill:
    """Rows of prompts that share the pass and commit nothing here.

    Tokens per millisecond of such a pass mean little, as its time is the prompts'. A draft is then
    worth its rows where it commits more than the passes to come would in the time it adds.
    """

    rows: int
    tokens_per_ms: float
    """Of the best pass without prompts."""


@dataclass
class Bill:
    """The growing cost of a pass and of its drafts, while tokens are added one by one."""

    rows: float
    step_ms: float
    reaching: dict[tuple[str, int], int]
    """(drafter, depth) -> requests that draft so deep."""


@dataclass(frozen=True)
class Pricing:
    """How a batch's pass and drafts are charged."""

    costs: PassCosts
    draft_costs: Mapping[str, DraftCosts]
    context_tokens: float
    requests: int
    other_rows: int = 0

    def open(self) -> Bill:
        """The bill of a plain pass."""
        return Bill(float(self.requests + self.other_rows), 0.0, {})

    def add(self, bill: Bill, drafter: str, depth: int, rows: float) -> None:
        """Charge one more token at `depth` of a request's draft."""
        costs = self.draft_costs[drafter]
        before = bill.reaching.get((drafter, depth), 0)
        bill.reaching[drafter, depth] = before + 1
        bill.rows += rows
        if depth == 0:
            bill.step_ms += costs.request_ms + (costs.step_ms if before == 0 else 0.0)
        if costs.passes is not None:
            each = self.context_tokens / max(1, self.requests)
            bill.step_ms += costs.passes.ms(before + 1, each * (before + 1))
            if before:
                bill.step_ms -= costs.passes.ms(before, each * before)

    def ms(self, bill: Bill) -> float:
        """The whole step."""
        return self.costs.ms(bill.rows, self.context_tokens) + bill.step_ms


def best_prefix(
    wishes: Sequence[Wish], pricing: Pricing, max_rows: float, prefill: Prefill | None
) -> Spent:
    """Walk down the ordered candidates and keep the best place to stop."""
    bill, tokens = pricing.open(), float(len(wishes))
    lengths = [0] * len(wishes)
    for request, wish in enumerate(wishes):
        for depth in range(min(wish.fixed, len(wish.gains))):
            pricing.add(bill, wish.drafter, depth, wish.rows[depth])
            tokens += wish.gains[depth]
            lengths[request] += 1
    ms = pricing.ms(bill)
    best = Spent(tuple(lengths), tokens, ms)
    kept, walked = 0, candidates(wishes)
    to_come = -sum(falling for falling, _, _ in walked)
    for count, (falling, depth, request) in enumerate(walked, start=1):
        wish = wishes[request]
        out_of_reach = not better(Spent((), tokens + to_come, ms), best, prefill)
        if out_of_reach or bill.rows + wish.rows[depth] > max_rows:
            break
        pricing.add(bill, wish.drafter, depth, wish.rows[depth])
        tokens, to_come = tokens - falling, to_come + falling
        ms = pricing.ms(bill)
        if better(found := Spent((), tokens, ms), best, prefill):
            kept, best = count, found
    for _, _, request in walked[:kept]:
        lengths[request] += 1
    return Spent(tuple(lengths), best.tokens, best.ms)


def better(one: Spent, other: Spent, prefill: Prefill | None) -> bool:
    """Whether `one` is the better use of its time."""
    if prefill is None:
        return one.tokens * other.ms > other.tokens * one.ms
    return one.tokens - other.tokens > prefill.tokens_per_ms * (one.ms - other.ms)


def candidates(wishes: Sequence[Wish]) -> list[tuple[float, int, int]]:
    """(-gain, depth, request) of every token that is free to choose, the likeliest first."""
    return sorted(
        (-gain, depth, request)
        for request, wish in enumerate(wishes)
        if not wish.fixed
        for depth, gain in enumerate(wish.gains)
        if gain > NEGLIGIBLE
    )
