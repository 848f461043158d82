"""What is believed of a drafter's acceptance, by position, forgetting old passes.

Each request has beliefs of its own about each drafter, which lean on the drafter's pool (all
requests, slower to forget) where they have seen little; and each position leans on the one before.
Memories are long, for steady estimates; a change of the text is seen by cumulative sums (Page 1954)
and shortens them at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from paceline.plan.beta import Beta
from paceline.plan.budget import Wish

REQUEST_MEMORY = 40.0
"""Passes after which a request's evidence has lost most of its weight."""
POOL_MEMORY = 200.0
LEAN = 3.0
"""Weight, in passes, of one position in the next one's belief."""
POOL_LEAN = 8.0
"""Weight, in passes, of the pool in a request's belief, where the pool is of many requests."""
FEW_REQUESTS = 4.0
"""So many of them are half of many: what is common to two texts says little of a third."""
CHANGED_PASSES = 1.0
"""What the past counts for, the pool's too, once a request's text has changed its kind."""
ODDS = 4.0
"""A change worth knowing of: the odds of acceptance four times what they were, or a fourth."""
SUREST = 0.999
"""What one position says for the next; more and more of it would make a deep one certain."""
NEGLIGIBLE = 0.01
"""Positions less likely to stand than this are not looked at: no row is so cheap as that."""
NEVER = 0.001
"""A drafter that proposes a position more seldom has none there. One that is merely rare costs its
rows as rarely as it gains by them: a cascade's first drafter, whose drafts are long and seldom."""
TRUSTED = 32.0
"""Tokens that a drafter is taken to have promised, and kept, before it drafted."""
TRUST_MEMORY = 500.0
"""Drafts after which one has lost most of its weight."""
LEAST_TRUST = 0.8
ALARM = 5.0
"""Log-likelihood in favour of a change that tells it from chance."""


@dataclass
class Evidence:
    """Counts by position, each pass discounting those before it."""

    memory: float
    reached: list[float] = field(default_factory=list)
    survived: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    offered: list[float] = field(default_factory=list)
    """Of the passes that asked for position j, those in which the drafter proposed it."""

    def add(self, asked: int, proposed: int, accepted: int) -> None:
        """Count one pass of a chain."""
        keep = 1 - 1 / self.memory
        for counts in (self.reached, self.survived, self.asked, self.offered):
            counts.extend([0.0] * (asked - len(counts)))
        for position in range(asked):
            self.asked[position] = keep * self.asked[position] + 1
            self.offered[position] = keep * self.offered[position] + (position < proposed)
        for position in range(min(proposed, accepted + 1)):
            self.reached[position] = keep * self.reached[position] + 1
            self.survived[position] = keep * self.survived[position] + (position < accepted)

    def scale(self, factor: float) -> None:
        """Weigh everything less."""
        for counts in (self.reached, self.survived, self.asked, self.offered):
            counts[:] = [count * factor for count in counts]

    def fade(self, passes: float) -> None:
        """Weigh what was seen as no more than so many passes."""
        for tried, hits in ((self.reached, self.survived), (self.asked, self.offered)):
            for position, weight in enumerate(tried):
                if weight > passes:
                    hits[position] *= passes / weight
                    tried[position] = passes


@dataclass(frozen=True)
class Prior:
    """What a drafter is given credit for before anything was seen of it."""

    alpha: float = 0.6
    weight: float = 2.0
    """In passes."""
    offers: float = 0.9
    """P(it proposes when asked)."""


class Expected(NamedTuple):
    """One position of a draft."""

    a: float
    b: float
    """The posterior of its acceptance, given all before it, is Beta(a, b)."""
    offer: float
    """P(the drafter proposes it when asked)."""

    @property
    def alpha(self) -> Beta:
        """The posterior."""
        return Beta(self.a, self.b)


@dataclass
class Belief:
    """Evidence of one request, or of the pool, and what to think where there is none."""

    evidence: Evidence
    prior: Prior = field(default_factory=Prior)
    requests: int = 0
    """Of a pool: those that it has seen."""
    changed: bool = False
    """Whether its text has changed: only its first position leans on the pool then, and little."""
    better: float = 0.0
    """Log-likelihood that the odds have risen since some earlier pass; at least 0."""
    worse: float = 0.0

    def learn(self, expected: Sequence[Expected], outcome: tuple[int, int, int]) -> None:
        """Take in a pass's (asked, proposed, accepted), of which `expected` was believed."""
        asked, proposed, accepted = outcome
        for position in range(min(proposed, accepted + 1, len(expected))):
            a, b, _ = expected[position]
            up, down = likelihoods(a / (a + b), position < accepted)
            self.better, self.worse = max(0.0, self.better + up), max(0.0, self.worse + down)
        if max(self.better, self.worse) > ALARM:
            self.evidence.fade(CHANGED_PASSES)
            self.changed, self.better, self.worse = True, 0.0, 0.0
        self.evidence.add(asked, proposed, accepted)

    def fade(self, passes: float) -> None:
        """Weigh what was seen as no more than so many passes, and let it say what to think where
        there is nothing else: what failed for long is not given its first credit again.
        """
        alpha = NEGLIGIBLE
        if first := self.expect(1):
            alpha = first[0].alpha.mean
        self.prior = replace(self.prior, alpha=alpha)
        self.evidence.fade(passes)

    @property
    def lean(self) -> float:
        """Weight, in passes, that a request's belief gives this pool.

        Of the first request 1.6, of 4 4, of 20 6.7.
        """
        return POOL_LEAN * self.requests / (self.requests + FEW_REQUESTS)

    def expect(
        self, positions: int, pool: Sequence[Expected] | None = None, lean: float = POOL_LEAN
    ) -> list[Expected]:
        """What to expect of each position, as far as it is worth drafting at all.

        Each leans on the pool's, or else on the position before it. Nothing seen, prior .6 with a
        weight of 2: Beta(1.2, .8), then Beta(1.8, 1.2), and so on.
        """
        found: list[Expected] = []
        seen, survival = self.evidence, 1.0
        mean, weight, offer = self.prior.alpha, self.prior.weight, self.prior.offers
        if pool is not None and not pool:
            mean, weight = NEGLIGIBLE / 2, POOL_LEAN  # It was looked at, and is not worth a draft.
        for position in range(positions):
            if pool and position < len(pool):
                a, b, offer = pool[position]
                if not self.changed:  # A pass tells of a position as often as it is reached.
                    mean, weight = a / (a + b), lean * survival
                elif not found:
                    mean, weight = a / (a + b), CHANGED_PASSES
            a, b = mean * weight, (1 - mean) * weight
            if position < len(seen.asked):
                survived = seen.survived[position]
                a, b = a + survived, b + seen.reached[position] - survived
                asked = seen.asked[position]
                offer = (offer * LEAN + seen.offered[position]) / (LEAN + asked)
            survival *= a / (a + b)
            mean, weight = min(a / (a + b), SUREST), LEAN
            offer = min(offer, found[-1].offer) if found else offer
            if survival < NEGLIGIBLE or offer < NEVER:
                break
            found.append(Expected(a, b, offer))
        return found


def likelihoods(alpha: float, accepted: bool) -> tuple[float, float]:
    """What one trial says for the odds having risen, and fallen, by ODDS: log-likelihood ratios.

    A rejection at .8: the odds of 4 would be 16 (.941) or 1 (.5), so log(.059 / .2) = -1.22 and
    log(.5 / .2) = .92.
    """
    up, down = (odds / (1 - alpha + odds) for odds in (alpha * ODDS, alpha / ODDS))
    if accepted:
        return math.log(up / alpha), math.log(down / alpha)
    return math.log((1 - up) / (1 - alpha)), math.log((1 - down) / (1 - alpha))


@dataclass
class Trust:
    """How far a drafter's promises are kept.

    The requests that draft are those that promise most, and whoever is chosen for an estimate was
    more often estimated too high than too low (Smith and Winkler 2006, the optimizer's curse).
    """

    promised: float = TRUSTED
    kept: float = TRUSTED

    def add(self, promised: float, accepted: int) -> None:
        """Take in a draft: the tokens expected to be accepted, and those that were."""
        keep = 1 - 1 / TRUST_MEMORY
        self.promised = keep * self.promised + promised
        self.kept = keep * self.kept + accepted

    @property
    def factor(self) -> float:
        """What a promised token is worth: 1 at most, LEAST_TRUST at least."""
        return min(1.0, max(LEAST_TRUST, self.kept / self.promised))


def wish_of(drafter: str, expected: Sequence[Expected], fixed: int = 0, trust: float = 1.0) -> Wish:
    """What drafting is expected to give: each token's chance to be proposed and to stand."""
    gains, survival = [], trust
    for a, b, offer in expected:
        survival *= a / (a + b)
        gains.append(offer * survival)
    return Wish(tuple(gains), tuple(one.offer for one in expected), drafter, fixed)
