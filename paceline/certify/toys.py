"""Language models over a few ids, in small fractions, and drafters of every kind for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import TypeVar

import numpy as np

from paceline.chooser import Chooser, Draw, Purpose
from paceline.chooser.bits import hash_key
from paceline.tree import Draft, DraftBuilder
from paceline.verify import Rule
from paceline.verify.laws import Dense

Tokens = tuple[int, ...]
Model = Callable[[Tokens], Dense]
"""The law[V] after a prefix, an array of fractions."""
Found = TypeVar("Found")


@cache
def fractions(*weights: int) -> Dense:
    """The law proportional to integer weights."""
    law = np.array([Fraction(weight, sum(weights)) for weight in weights], dtype=object)
    law.setflags(write=False)
    return law


def toy(seed: int, V: int) -> Model:
    """A model whose law depends on the whole prefix: dense, with zeros, with ties, or one-hot."""

    @cache
    def law(prefix: Tokens) -> Dense:
        kind, lead, *digits = (hash_key(seed, i, *prefix) for i in range(V + 2))
        lead %= V
        if kind % 8 == 0:
            return fractions(*(int(i == lead) for i in range(V)))
        if kind % 8 == 1:
            return fractions(*[1] * V)
        low = 0 if kind % 8 < 4 else 1
        return fractions(*(low + d % 4 + (1 - low) * (i == lead) for i, d in enumerate(digits)))

    return law


def mimic(
    target: Callable[[Tokens], Found], other: Callable[[Tokens], Found], seed: int
) -> Callable[[Tokens], Found]:
    """The target's own law (p = q) after a quarter of all prefixes, else the other's."""
    return lambda prefix: (target if hash_key(seed, *prefix) % 4 == 0 else other)(prefix)


def cold(model: Model) -> Model:
    """The model at temperature 0: one-hot at its most likely id, the lowest among equals."""

    @cache
    def law(prefix: Tokens) -> Dense:
        probs = model(prefix)
        return fractions(*(int(i == probs.argmax()) for i in range(len(probs))))

    return law


class Kind(Enum):
    """How a drafter comes by a token."""

    DRAWN = "drawn as the rule draws, from q"
    DISTINCT = "drawn from q without the tokens of the trials before it"
    BEST = "the argmax of q, a point mass"
    ANY = "any id at all, a point mass: a lookup, or an adversary"


@dataclass(frozen=True)
class Stem:
    """One trial to make, and what to try below it."""

    kind: Kind
    below: tuple[Stem, ...] = ()


def chain(*kinds: Kind) -> tuple[Stem, ...]:
    """One branch."""
    return (Stem(kinds[0], chain(*kinds[1:])),) if kinds else ()


@dataclass(frozen=True)
class ToyDrafter:
    """Grows a draft of a given shape from the laws q of a model."""

    q: Model
    shape: tuple[Stem, ...]
    stops: frozenset[int] = frozenset()
    """It keeps these tokens but drafts nothing after them: stopping early, as the rule allows."""

    def propose(self, rule: Rule, prefix: Tokens, chooser: Chooser) -> Draft:
        """Draft for a rule after a prefix."""
        builder = DraftBuilder()
        self._grow(builder, 0, prefix, self.shape, (rule, chooser))
        return builder.build()

    def _grow(
        self,
        builder: DraftBuilder,
        parent: int,
        prefix: Tokens,
        stems: tuple[Stem, ...],
        by: tuple[Rule, Chooser],
    ) -> None:
        tried: list[int] = []
        for stem in stems:
            law = self.q(prefix)
            if stem.kind is Kind.DISTINCT:
                law = without(law, tried)
            if not law.any():
                continue
            row = self._try(builder, parent, len(prefix), stem.kind, law, by)
            token = builder.token(row)
            tried.append(token)
            if token not in self.stops:
                self._grow(builder, row, (*prefix, token), stem.below, by)

    def _try(
        self,
        builder: DraftBuilder,
        parent: int,
        position: int,
        kind: Kind,
        law: Dense,
        by: tuple[Rule, Chooser],
    ) -> int:
        """Make one trial; return the row of its node."""
        rule, chooser = by
        draw = Draw(position, parent, builder.trial_count(parent), Purpose.DRAFT)
        if kind is Kind.BEST:
            return builder.point(parent, int(law.argmax()))
        if kind is Kind.ANY:
            return builder.point(parent, chooser.categorical(fractions(*[1] * len(law)), draw))
        token = rule.draw(chooser, law, draw)
        if not rule.sampled:
            return builder.point(parent, token)
        return builder.sampled(parent, token, law)


def without(law: Dense, tokens: list[int]) -> Dense:
    """norm(law with law(token) = 0); all zero where nothing is left."""
    rest = law.copy()
    rest[tokens] = Fraction(0)
    mass = rest.sum()
    return rest / mass if mass else rest
