"""`certify --exact`: every rule on every kind of trial under every setting, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from paceline.certify.exact import Case, violation
from paceline.certify.suite import (
    BRIEF_CHAINS,
    BRIEF_TREES,
    CHAINS,
    SETTLED_CHAINS,
    SETTLED_TREES,
    TREES,
    settled_cases,
    shapes_for,
    toy_cases,
)
from paceline.certify.toys import Kind, Stem
from paceline.verify import Rule, rules

ANY_LAW = "any law"
"""Laws in small fractions, with zeros, ties and one-hots, that no setting has to produce."""


@dataclass(frozen=True, kw_only=True)
class RuleProof:
    """What came of one rule's cases."""

    rule: str
    kinds: tuple[str, ...]
    """The kinds of trial drafted."""
    settings: tuple[str, ...]
    cases: int
    violations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ExactReport:
    """The outcome over all rules."""

    proofs: tuple[RuleProof, ...]
    tokens: int
    """Output tokens whose joint law was compared, over as many passes as they take."""

    @property
    def cases(self) -> int:
        """How many cases there were."""
        return sum(proof.cases for proof in self.proofs)

    @property
    def passed(self) -> bool:
        """Whether every case was proved."""
        return not any(proof.violations for proof in self.proofs)


def prove_all(
    chosen: Iterable[Rule] | None = None,
    *,
    quick: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ExactReport:
    """Prove rules (all by default); `progress` is called with (cases done, cases in all)."""
    tokens = 3
    work = [
        (rule, list(all_cases(rule, tokens, quick=quick)))
        for rule in (chosen or [rules[name] for name in rules])
    ]
    total, done = sum(len(own) for _, own in work), 0
    proofs = []
    for rule, own in work:
        found = []
        for setting, case in own:
            if broken := violation(case):
                found.append(f"{setting}, {case.drafter.shape}: {broken}")
            done += 1
            progress(done, total)
        proofs.append(summary(rule, own, tuple(found)))
    return ExactReport(proofs=tuple(proofs), tokens=tokens)


def all_cases(rule: Rule, tokens: int, *, quick: bool) -> Iterator[tuple[str, Case]]:
    """(setting, case): laws of every form on every shape, then every setting on some shapes."""
    brief, wide = (BRIEF_CHAINS, BRIEF_TREES), (CHAINS, TREES)
    shapes = shapes_for(rule, *(brief if quick else wide))
    for case in toy_cases(rule, shapes, models=1 if quick else 2, tokens=tokens):
        yield ANY_LAW, case
    shapes = shapes_for(rule, *(brief if quick else (SETTLED_CHAINS, SETTLED_TREES)))
    yield from settled_cases(rule, shapes, tokens=tokens)


def summary(rule: Rule, own: list[tuple[str, Case]], violations: tuple[str, ...]) -> RuleProof:
    """What the cases covered."""
    kinds = {kind for _, case in own for kind in kinds_of(case.drafter.shape)}
    return RuleProof(
        rule=rule.name,
        kinds=tuple(kind.name.lower() for kind in Kind if kind in kinds),
        settings=tuple(dict.fromkeys(setting for setting, _ in own)),
        cases=len(own),
        violations=violations,
    )


def kinds_of(shape: tuple[Stem, ...]) -> set[Kind]:
    """The kinds of trial a shape makes."""
    found = {stem.kind for stem in shape}
    return found.union(*(kinds_of(stem.below) for stem in shape))
