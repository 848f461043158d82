"""The cases a rule is proved on: every trial kind, chains of 1 to 4, small trees, any law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from paceline.certify.exact import Case, violation
from paceline.certify.settings import row_laws, settings_for, settled, toy_logits
from paceline.certify.toys import Kind, Stem, ToyDrafter, chain, cold, mimic, toy
from paceline.chooser.bits import hash_key
from paceline.verify import Rule

Shape = tuple[Stem, ...]
Shapes = tuple[tuple[int, Shape], ...]
"""(V, shape) of each."""

DRAWN, DISTINCT, BEST, ANY = Kind.DRAWN, Kind.DISTINCT, Kind.BEST, Kind.ANY

CHAINS: Shapes = (
    *((3, chain(*kinds)) for kinds in ([DRAWN], [BEST], [ANY], [DRAWN, DRAWN])),
    *((3, chain(*kinds)) for kinds in ([DRAWN, BEST], [BEST, DRAWN], [ANY, DRAWN])),
    *((2, chain(*kinds)) for kinds in ([DRAWN] * 3, [DRAWN, ANY, DRAWN], [BEST, DRAWN, BEST])),
    *((2, chain(*kinds)) for kinds in ([DRAWN] * 4, [DRAWN, BEST, BEST, DRAWN])),
)

TREES: Shapes = (
    (3, (Stem(DRAWN), Stem(DRAWN))),
    (3, (Stem(DRAWN), Stem(DISTINCT))),
    (3, (Stem(DISTINCT), Stem(DISTINCT), Stem(DISTINCT))),
    (3, (Stem(BEST), Stem(DRAWN))),
    (3, (Stem(DRAWN), Stem(ANY), Stem(DRAWN))),
    (2, (Stem(BEST), Stem(BEST), Stem(DRAWN, chain(DRAWN)))),
    (2, (Stem(DRAWN, chain(DRAWN)), Stem(DRAWN, chain(BEST)))),
    (2, (Stem(BEST, (Stem(DRAWN), Stem(DISTINCT))), Stem(DISTINCT, chain(DRAWN)))),
)
"""Where two trials hold one token they share a node, and what grows below both."""

BRIEF_CHAINS: Shapes = ((3, chain(DRAWN)), (2, chain(ANY, DRAWN, BEST)))
BRIEF_TREES: Shapes = (
    (3, (Stem(DRAWN), Stem(DISTINCT))),
    (2, (Stem(BEST), Stem(DRAWN, chain(DRAWN)))),
)
"""Every kind of trial in as few shapes as hold them."""

SETTLED_CHAINS: Shapes = (*BRIEF_CHAINS, (3, chain(DRAWN, BEST)), (2, chain(DRAWN, DRAWN, DRAWN)))
SETTLED_TREES: Shapes = (*BRIEF_TREES, (2, (Stem(DRAWN, chain(DRAWN)), Stem(DRAWN, chain(BEST)))))
"""What settings are proved on: a setting decides the law of each row, which is there whatever the
shape; rows behind rows, siblings, bonus rows and every kind of trial are all it can tell apart."""


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
    return toy_cases(rule, shapes_for(rule, CHAINS, TREES), seed, models, tokens)


def toy_cases(
    rule: Rule, shapes: Shapes, seed: int = 0, models: int = 2, tokens: int = 3
) -> Iterator[Case]:
    """`cases` on given shapes."""
    keys = (hash_key(seed, index) for index in count())
    for V, shape in shapes:
        for key in islice(keys, models):
            target = cold(toy(key, V)) if rule.one_hot else toy(key, V)
            stops = frozenset({0} if key % 3 == 0 else ())
            drafter = ToyDrafter(mimic(target, toy(key + 1, V), key + 2), shape, stops)
            yield Case(rule, target, drafter, tokens)


def settled_cases(
    rule: Rule, shapes: Shapes, seed: int = 0, tokens: int = 3
) -> Iterator[tuple[str, Case]]:
    """(setting, case) for every setting on every shape, target and drafter both under it."""
    keys = (hash_key(seed, index) for index in count())
    for name, params in settings_for(rule.one_hot).items():
        for V, shape in shapes:
            key = next(keys)
            target = toy_logits(key, V)
            rows = row_laws(target, params)
            q = settled(row_laws(mimic(target, toy_logits(key + 1, V), key + 2), params))
            yield name, Case(rule, settled(rows), ToyDrafter(q, shape), tokens, rows=rows)


def shapes_for(rule: Rule, chains: Shapes, trees: Shapes) -> Shapes:
    """The shapes a rule verifies; where text is promised, every draft of each of them."""
    shapes = (*chains, *(trees if rule.trees else ()))
    if rule.reproducible:
        shapes = tuple((V, adversarial(shape)) for V, shape in shapes)
    return tuple(dict.fromkeys(shapes))


def adversarial(shape: Shape) -> Shape:
    """The shape with every token of it anything at all: all possible drafts."""
    return tuple(Stem(ANY, adversarial(stem.below)) for stem in shape)
