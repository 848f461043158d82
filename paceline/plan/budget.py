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

import numpy as np

from paceline.chooser.race import Floats
from paceline.plan.costs import DraftCosts, Ints, PassCosts


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
    gains: tuple[float, ...]
    """Of those, what each request's are expected to add to its pass's own token."""
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
    weights: Sequence[float] | None = None,
) -> Spent:
    """The lengths of most tokens per millisecond, all requests of a batch together.

    A drafted token counts as `weights` say of its request, all alike if there are none. Four
    requests of alpha .9, .1, .1 and .1, passes of 10 ms up to 5 rows and 10 more a row beyond,
    free drafts: one token, for the first request, and 4.9 tokens in 10 ms.
    """
    offers = offers_of(wishes, list(draft_costs), weights or [1.0] * len(wishes))
    rows = len(wishes) + (prefill.rows if prefill else 0) + running(offers.rows)
    tokens = len(wishes) + running(offers.gains)
    valued = len(wishes) + running(offers.values)
    added = draft_ms(offers, list(draft_costs.values()), len(wishes), context_tokens)
    ms = costs.many_ms(rows, context_tokens) + running(added)
    least = offers.fixed
    most = max(least, int(np.searchsorted(rows, max_rows, side="right")) - 1)
    worth = valued / ms if prefill is None else valued - prefill.tokens_per_ms * ms
    stop = least + int(np.argmax(worth[least : most + 1]))
    granted, count = offers.requests[:stop], len(wishes)
    lengths = np.bincount(granted, minlength=count).tolist()
    gains = np.bincount(granted, offers.gains[:stop], count).tolist()
    return Spent(tuple(lengths), tuple(gains), float(tokens[stop]), float(ms[stop]))


@dataclass(frozen=True)
class Prefill:
    """Rows of prompts that share the pass and commit nothing here.

    Tokens per millisecond of such a pass mean little, as its time is the prompts'. A draft is then
    worth its rows where it commits more than the passes to come would in the time it adds.
    """

    rows: int
    tokens_per_ms: float
    """Of the best pass without prompts."""


@dataclass(frozen=True, eq=False)
class Offers:
    """Every token that may be drafted, in the order in which they are granted."""

    gains: Floats
    values: Floats
    """The gains, each as much as its request weighs."""
    rows: Floats
    depths: Ints
    requests: Ints
    drafters: Ints
    """Places in the list of draft costs."""
    fixed: int
    """So many come first, whatever they are worth."""


def offers_of(wishes: Sequence[Wish], drafters: Sequence[str], weights: Sequence[float]) -> Offers:
    """The tokens that are fixed, then those free to choose, those of most value first."""
    counts = [min(w.fixed or len(w.gains), len(w.gains)) for w in wishes]
    cut = list(zip(wishes, counts, strict=True))
    gains = np.array([gain for wish, count in cut for gain in wish.gains[:count]])
    rows = np.array([row for wish, count in cut for row in wish.rows[:count]])
    depths = np.array([depth for count in counts for depth in range(count)], dtype=np.int64)
    places = [drafters.index(wish.drafter) if count else 0 for wish, count in cut]
    fixed = np.repeat([wish.fixed > 0 for wish in wishes], counts)
    requests, owners = np.repeat([range(len(wishes)), places], counts, axis=1)
    values = gains * np.repeat(weights, counts)
    ranks = np.where(fixed, -np.inf, -values)
    order = np.lexsort((requests, depths, ranks))
    return Offers(
        gains[order],
        values[order],
        rows[order],
        depths[order],
        requests[order],
        owners[order],
        int(np.count_nonzero(fixed)),
    )


def rates_alone(
    wishes: Sequence[Wish], costs: PassCosts, draft_costs: DraftCosts, context_tokens: Floats
) -> Floats:
    """Tokens per millisecond[B] of each request, of context_tokens[B], if it ran alone.

    At alpha .7, passes of 10 ms up to 2 rows and 18 beyond, free drafts: 1.7 in 10 ms, .17.
    """
    longest = max((len(wish.gains) for wish in wishes), default=0)
    steps = np.arange(longest + 1)
    padded = [(0.0,) * (longest - len(wish.gains)) for wish in wishes]
    gains = np.array([(1.0, *w.gains, *pad) for w, pad in zip(wishes, padded, strict=True)])
    rows = np.array([(1.0, *w.rows, *pad) for w, pad in zip(wishes, padded, strict=True)])
    contexts = context_tokens[:, None]
    ms = costs.many_ms(rows.cumsum(1), contexts) + np.where(steps, draft_costs.fixed_ms(1), 0.0)
    if draft_costs.passes is not None:
        runs = (steps > 0) & (steps <= draft_costs.most_passes)
        passes = np.where(runs, rows, 0.0).cumsum(1)
        ms += passes * draft_costs.passes.many_ms(np.ones(1), contexts)
    return np.asarray((gains.cumsum(1) / ms).max(1))


def draft_ms(
    offers: Offers, costs: Sequence[DraftCosts], requests: int, context_tokens: float
) -> Floats:
    """Milliseconds[n] that each token adds to drafting, granted in their order.

    The first at a depth pays for the drafter's pass there, later ones for what a row more costs;
    each as likely as it is to be proposed, since a drafter that has no more to say stops.
    """
    added = np.zeros(len(offers.gains))
    for place, drafter in enumerate(costs):
        (own,) = np.nonzero(offers.drafters == place)
        if not len(own):
            continue
        depths = offers.depths[own]
        before = earlier_equals(depths)
        first = depths == 0
        added[own] += first * drafter.request_ms + (first & (before == 0)) * drafter.step_ms
        if drafter.passes is not None:
            sizes = np.arange(1, before.max() + 2)
            times = drafter.passes.many_ms(sizes, sizes * (context_tokens / requests))
            runs = depths < drafter.most_passes
            added[own] += np.diff(times, prepend=0.0)[before] * offers.rows[own] * runs
    return added


def earlier_equals(values: Ints) -> Ints:
    """How often each of values[n] stands before it; (3, 5, 3, 3) gives (0, 0, 1, 2)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return ranks


def running(values: Floats) -> Floats:
    """The sums[n + 1] of the first 0 .. n values."""
    return np.concatenate(([0.0], np.cumsum(values)))
