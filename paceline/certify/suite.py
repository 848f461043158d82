"""The cases a rule is proved on: every trial kind, chains of 1 to 4, small trees, any law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from paceline.certify.exact import Case, violation
from paceline.certify.toys import Kind, Stem, ToyDrafter, chain, cold, mimic, toy
from paceline.chooser.bits import hash_key
from paceline.verify import Rule

Shape = tuple[Stem, ...]

DRAWN, DISTINCT, BEST, ANY = Kind.DRAWN, Kind.DISTINCT, Kind.BEST, Kind.ANY

CHAINS: tuple[tuple[int, Shape], ...] = (
    *((3, chain(*kinds)) for kinds in ([DRAWN], [BEST], [ANY], [DRAWN, DRAWN])),
    *((3, chain(*kinds)) for kinds in ([DRAWN, BEST], [BEST, DRAWN], [ANY, DRAWN])),
    *((2, chain(*kinds)) for kinds in ([DRAWN] * 3, [DRAWN, ANY, DRAWN], [BEST, DRAWN, BEST])),
    *((2, chain(*kinds)) for kinds in ([DRAWN] * 4, [DRAWN, BEST, BEST, DRAWN])),
)
"""(V, shape)."""

TREES: tuple[tuple[int, Shape], ...] = (
    (3, (Stem(DRAWN), Stem(DRAWN))),
    (3, (Stem(DRAWN), Stem(DISTINCT))),
    (3, (Stem(DISTINCT), Stem(DISTINCT), Stem(DISTINCT))),
    (3, (Stem(BEST), Stem(DRAWN))),
    (3, (Stem(DRAWN), Stem(ANY), Stem(DRAWN))),
    (2, (Stem(BEST), Stem(BEST), Stem(DRAWN, chain(DRAWN)))),
    (2, (Stem(DRAWN, chain(DRAWN)), Stem(DRAWN, chain(BEST)))),
    (2, (Stem(BEST, (Stem(DRAWN), Stem(DISTINCT))), Stem(DISTINCT, chain(DRAWN)))),
)
"""(V, shape); where two trials hold one token they share a node, and what grows below both."""


@dataclass(frozen=True)
class Proof:
    """What came of a rule's cases."""

    rule: str
    cases: int
    violations: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every case was proved."""
        return not self.violations


def prove(rule: Rule, seed: int = 0, models: int = 2) -> Proof:
    """Prove a rule on every shape it verifies, each with `models` pairs of target and drafter."""
    found = [violation(case) for case in cases(rule, seed, models)]
    return Proof(rule.name, len(found), tuple(one for one in found if one))


def cases(rule: Rule, seed: int = 0, models: int = 2, tokens: int = 3) -> Iterator[Case]:
    """Cases of up to `tokens` consecutive passes; every third drafter stops early at token 0."""
    shapes = [*CHAINS, *(TREES if rule.trees else ())]
    if rule.reproducible:
        shapes = list(dict.fromkeys((V, adversarial(shape)) for V, shape in shapes))
    keys = (hash_key(seed, index) for index in count())
    for V, shape in shapes:
        for key in islice(keys, models):
            target = cold(toy(key, V)) if rule.one_hot else toy(key, V)
            stops = frozenset({0} if key % 3 == 0 else ())
            drafter = ToyDrafter(mimic(target, toy(key + 1, V), key + 2), shape, stops)
            yield Case(rule, target, drafter, tokens)


def adversarial(shape: Shape) -> Shape:
    """The shape with every token of it anything at all: all possible drafts."""
    return tuple(Stem(ANY, adversarial(stem.below)) for stem in shape)
