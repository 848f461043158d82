"""What the next step would give, from all that was seen: beliefs, live costs, the best budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.chooser.race import Floats
from paceline.plan.belief import (
    POOL_MEMORY,
    REQUEST_MEMORY,
    Belief,
    Evidence,
    Expected,
    Prior,
    wish_of,
)
from paceline.plan.budget import Prefill, Spent, Wish, rates_alone, spend
from paceline.plan.costs import DraftCosts, PassCosts
from paceline.plan.decision import Candidate, Limits, Outcome, Share, Step
from paceline.plan.live import LiveCosts, LiveDraftCosts
from paceline.plan.live_drafter import LiveDrafter
from paceline.plan.outlook import Outlook, Pools, Round

SWITCH_MARGIN = 0.03
"""Another drafter takes over only where it promises so much more than the one in use."""
RETHINK = 8
"""Steps after which it is asked again which drafter suits a request."""
FORGIVE_PASSES = 24
"""Passes after which a request that was left out is judged by its drafter's pool again."""
LONGEST = 16
"""The longest draft that is chosen freely."""
NOTHING = Wish((), (), "")
NO_SHARE = Share("", 0)
HOPELESS = Expected(1e-3, 1.0, 1.0)
"""A position that is drafted only because somebody pinned the length."""


@dataclass(frozen=True)
class DrafterOnPaper:
    """What is known of a drafter before it ran."""

    costs: DraftCosts
    prior: Prior = field(default_factory=Prior)


class Forecast:
    """Learns from steps and finds the best budget for the next."""

    def __init__(
        self, target: PassCosts, drafters: Mapping[str, DrafterOnPaper], limits: Limits
    ) -> None:
        self.target, self.limits = LiveCosts(target), limits
        self.drafters = {
            name: LiveDrafter(
                LiveDraftCosts(paper.costs, self.target), Belief(Evidence(POOL_MEMORY), paper.prior)
            )
            for name, paper in drafters.items()
        }
        self._beliefs: dict[tuple[str, str], Belief] = {}
        self._choice: dict[str, str] = {}
        """Request -> the drafter that suits it, as last thought over."""
        self._settled_until = 0
        """The step at which that is thought over again."""
        self._steps = 0

    @property
    def known_requests(self) -> int:
        """Requests that it remembers anything of."""
        return len({request_id for request_id, _ in self._beliefs} | self._choice.keys())

    def round(self, requests: Sequence[Candidate], prefill_rows: int) -> Round:
        """The step to come."""
        ceiling = self.limits.ceiling(len(requests))
        pools = Pools(self.drafters, min(ceiling, LONGEST))
        return Round(requests, prefill_rows, ceiling, pools, self.target)

    def best(self, now: Round, in_use: str = "") -> Outlook:
        """The best of: one drafter for all who may use it, or for each request its own best.

        Judged without the prompts that happen to share this pass; what they leave room for is a
        matter of `beside_prompts`. Which drafters draft is thought over every RETHINK steps, when
        requests come or go, and when what is in use has ceased to pay; how much they draft, always.
        """
        now = replace(now, prefill_rows=0)
        ids = [request.id for request in now.requests]
        if ids == list(self._choice) and self._steps < self._settled_until:
            outlook = self._outlook(now, self._wishes(now, self._choice))
            if outlook.speedup > 1 or not in_use:
                return outlook
        choice, outlook = max(self._choices(now), key=lambda one: promise(one[1], in_use))
        self._choice, self._settled_until = choice, self._steps + RETHINK
        return outlook

    def _choices(self, now: Round) -> Iterator[tuple[dict[str, str], Outlook]]:
        """Request -> drafter, in all ways that are looked at, and what would come of it."""
        ids, found = [request.id for request in now.requests], dict[str, list[Wish]]()
        for name in self.drafters:
            choice = dict.fromkeys(ids, name)
            found[name] = self._wishes(now, choice)
            yield choice, self._outlook(now, found[name])
        if len(found) > 1:
            rates = [self._rates(now, name, wishes) for name, wishes in found.items()]
            names = list(self.drafters)
            own = {r: names[place] for r, place in zip(ids, np.argmax(rates, 0), strict=True)}
            yield own, self._outlook(now, self._wishes(now, own))

    def _rates(self, now: Round, name: str, wishes: Sequence[Wish]) -> Floats:
        """Tokens per millisecond of each request alone with the drafter; 0 where it has none."""
        if not any(wish.gains for wish in wishes):
            return np.zeros(len(wishes))
        contexts = np.array([float(request.context_tokens) for request in now.requests])
        return rates_alone(wishes, self.target, self.drafters[name].costs.now, contexts)

    def _wishes(self, now: Round, choice: Mapping[str, str]) -> list[Wish]:
        return [self._wish(request, choice[request.id], now) for request in now.requests]

    def beside_prompts(self, now: Round, best: Outlook) -> Outlook:
        """`best`, cut to what is worth its time in a pass that prompts have filled already."""
        if not now.prefill_rows:
            return best
        wishes = [self._wish(r, best.shares.get(r.id, NO_SHARE).drafter, now) for r in now.requests]
        return self._outlook(now, wishes, Prefill(now.prefill_rows, best.spent.tokens_per_ms))

    def trial(self, now: Round, base: Outlook, drafter: str, thorough: bool) -> Outlook | None:
        """`base`, but one request tries another drafter, one token.

        It is the request with most room of those that the drafter need not read for long, else the
        one of which it has least to read. Where the trial is to be `thorough`, or reading takes
        longer than a pass, the length is what would suit the request alone, so that it tells most.
        """
        live = self.drafters[drafter]
        unread = {r.id: live.unread_of_note(r, now.plain_ms) for r in now.requests}
        for request in sorted(now.requests, key=lambda r: (unread[r.id], -r.room, r.id)):
            free = drafter in request.drafters and request.k is None and request.room > 0
            if free and base.shares.get(request.id, NO_SHARE).drafter != drafter:
                wishes = [self._pinned(r, base.shares, now) for r in now.requests]
                index = now.requests.index(request)
                length = 1
                if thorough or live.reading_ms(request) > now.plain_ms:
                    alone = replace(now, requests=[request])
                    length = max(
                        1, *self._spend(alone, [self._wish(request, drafter, now)]).lengths
                    )
                wishes[index] = self._wish(request, drafter, now, fixed=length)
                return self._outlook(now, wishes)
        return None

    def wider(self, now: Round, base: Outlook) -> Outlook | None:
        """More drafts than `base` has, as though rows that were never measured were free.

        What a pass of so many rows was taken for before may be far off, and drafts that seem too
        dear are never measured otherwise. At most twice the rows of `base`; None where even then
        it would not be much better.
        """
        if [request.id for request in now.requests] != list(self._choice):
            return None
        most = min(2 * (now.rows + sum(base.spent.lengths)), self.limits.max_rows)
        wishes = self._wishes(now, self._choice)
        hopeful = spend(
            wishes, self.target.hopeful, self._draft_costs(), now.context_tokens, most,
            weights=now.weights,
        )  # fmt: skip
        if hopeful.tokens_per_ms <= base.spent.tokens_per_ms * (1 + SWITCH_MARGIN):
            return None
        lengths = zip(now.requests, wishes, hopeful.lengths, strict=True)
        shares = {request.id: Share(wish.drafter, k) for request, wish, k in lengths}
        return self._outlook(now, [self._pinned(r, shares, now) for r in now.requests])

    def learn(self, now: Round, shares: Mapping[str, Share], step: Step) -> None:
        """Take in what a step with these shares did."""
        self._steps += 1
        if not step.prefill_rows:
            self.target.observe(step.rows, now.context_tokens, step.pass_ms)
        for outcome in step.outcomes:
            share = shares.get(outcome.id)
            if share is not None and share.k:
                self._judge(now, share, outcome)
        self._forgive(shares)
        for name, drafter in self.drafters.items():
            if name in step.draft_ms:
                own = [r for r in now.requests if shares.get(r.id, NO_SHARE).drafter == name]
                drafter.learn(own, step, step.draft_ms[name])

    def _judge(self, now: Round, share: Share, outcome: Outcome) -> None:
        """Learn what became of one request's draft."""
        own = self._beliefs.get((outcome.id, share.drafter))
        pool = self.drafters[share.drafter].pool
        if own is None:
            own = Belief(Evidence(REQUEST_MEMORY))
            self._beliefs[outcome.id, share.drafter] = own
            pool.requests += 1
        expected = own.expect(share.k, now.pools[share.drafter], pool.lean)
        promised = sum(wish_of(share.drafter, expected).gains)
        self.drafters[share.drafter].trust.add(promised, outcome.accepted)
        own.learn(expected, (share.k, outcome.proposed, outcome.accepted))
        pool.evidence.add(share.k, outcome.proposed, outcome.accepted)

    def _forgive(self, shares: Mapping[str, Share]) -> None:
        """Requests left out while their drafter worked for others drift back to its pool."""
        if not shares:
            return
        used = {share.drafter for share in shares.values()}
        for (request_id, name), belief in self._beliefs.items():
            if name in used and request_id not in shares:
                belief.evidence.scale(1 - 1 / FORGIVE_PASSES)

    def fade(self, drafter: str, passes: float) -> None:
        """Weigh the evidence about a drafter as no more than so many passes."""
        self._settled_until = self._steps + 1
        self.drafters[drafter].pool.fade(passes)
        for (_, name), belief in self._beliefs.items():
            if name == drafter:
                belief.evidence.fade(passes)

    def forget(self, request_id: str) -> None:
        """Drop a request that ended."""
        for name, drafter in self.drafters.items():
            self._beliefs.pop((request_id, name), None)
            drafter.read.pop(request_id, None)
        self._choice.pop(request_id, None)

    def _wish(self, request: Candidate, name: str, now: Round, fixed: int = 0) -> Wish:
        """What the drafter is expected to do for the request, within all limits."""
        if request.k and name not in request.drafters:
            name = request.drafters[0] if request.drafters else name
        if name not in request.drafters or name not in self.drafters:
            return NOTHING
        pinned = request.k if request.k is not None else fixed
        positions = min(request.room, now.ceiling, pinned or LONGEST)
        if request.k == 0 or positions <= 0:
            return NOTHING
        pool = now.pools[name]
        own = self._beliefs.get((request.id, name))
        if own is None and not pinned:
            return now.pools.wish(name, positions)
        lean = self.drafters[name].pool.lean
        expected = list(pool[:positions]) if own is None else own.expect(positions, pool, lean)
        if pinned:
            expected += [HOPELESS] * (positions - len(expected))
        return wish_of(name, expected, pinned, self.drafters[name].trust.factor)

    def _pinned(self, request: Candidate, shares: Mapping[str, Share], now: Round) -> Wish:
        """The wish for exactly what the shares give the request."""
        share = shares.get(request.id, NO_SHARE)
        return self._wish(request, share.drafter, now, share.k)

    def _outlook(
        self, now: Round, wishes: Sequence[Wish], prefill: Prefill | None = None
    ) -> Outlook:
        spent = self._spend(now, wishes, prefill)
        pace = now.plain_ms / spent.ms
        shares = {
            request.id: Share(wish.drafter, k, (1 + gain) * pace)
            for request, wish, k, gain in zip(
                now.requests, wishes, spent.lengths, spent.gains, strict=True
            )
            if k
        }
        reading = [
            self.drafters[shares[r.id].drafter].reading_ms(r) if r.id in shares else 0.0
            for r in now.requests
        ]
        spread_ms = sum(
            ms * (1 + gain) / (1 + max(gain, request.room))
            for ms, request, gain in zip(reading, now.requests, spent.gains, strict=True)
        )
        speedup = spent.tokens * now.plain_ms / (spent.ms + spread_ms) / len(now.requests)
        return Outlook(shares, spent, speedup, sum(reading))

    def _spend(self, now: Round, wishes: Sequence[Wish], prefill: Prefill | None = None) -> Spent:
        return spend(
            wishes,
            self.target,
            self._draft_costs(),
            now.context_tokens,
            self.limits.max_rows,
            prefill,
            now.weights,
        )

    def _draft_costs(self) -> dict[str, DraftCosts]:
        return {name: drafter.costs.now for name, drafter in self.drafters.items()}


def promise(outlook: Outlook, in_use: str) -> float:
    """What a choice is worth, with what it takes to oust the drafter in use."""
    return outlook.speedup * (1 + SWITCH_MARGIN * (in_use in outlook.drafters))
