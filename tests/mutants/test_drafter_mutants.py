"""Drafters that break the discard rule or lie about their laws: the proofs must see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

import pytest

from paceline.certify import cases, violation
from paceline.certify.toys import Kind, Stem, ToyDrafter, chain
from paceline.tree import Draft, DraftBuilder, PointMass, Sampled
from paceline.verify import rules

DRAWN, BEST = Kind.DRAWN, Kind.BEST


@dataclass(frozen=True)
class ArgmaxAsSampled(ToyDrafter):
    """Says that its argmax was drawn from q."""

    def propose(self, rule, prefix, chooser):
        tokens, laws = [], []
        for _ in range(2):
            laws.append(self.q((*prefix, *tokens)))
            tokens.append(int(laws[-1].argmax()))
        return Draft.chain([Sampled(t, i) for i, t in enumerate(tokens)], laws)


@dataclass(frozen=True)
class DrawnAsPointMass(ToyDrafter):
    """Proposes drawn tokens as point masses, which wastes them but is no lie."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        tokens = draft.tree.tokens
        return Draft.chain([PointMass(t) for t in tokens])


@dataclass(frozen=True)
class DropsUnlikely(ToyDrafter):
    """Drops a drawn token for its low q."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        kept = len(draft)
        while kept and draft.draft_probs[kept - 1][draft.tree.tokens[kept - 1]] * 2 < 1:
            kept -= 1
        return Draft.chain([trial for (trial,) in draft.trials[:kept]], draft.draft_probs)


@dataclass(frozen=True)
class DropsDuplicates(ToyDrafter):
    """Leaves out a drawn sibling because an earlier trial holds the same token."""

    def propose(self, rule, prefix, chooser):
        trials = super().propose(rule, prefix, chooser)
        builder, seen = DraftBuilder(), set()
        for trial in trials.trials[0]:
            if trial.token not in seen:
                add(builder, trials, trial)
            seen.add(trial.token)
        return builder.build()


@dataclass(frozen=True)
class RanksByValue(ToyDrafter):
    """Tries the drawn siblings in order of how likely they turned out to be."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        builder, law = DraftBuilder(), self.q(prefix)
        for trial in sorted(draft.trials[0], key=lambda t: -law[t.token]):
            add(builder, draft, trial)
        return builder.build()


@dataclass(frozen=True)
class KeepsBest(ToyDrafter):
    """Draws two siblings and proposes the likelier one."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        builder, law = DraftBuilder(), self.q(prefix)
        add(builder, draft, max(draft.trials[0], key=lambda t: law[t.token]))
        return builder.build()


@dataclass(frozen=True)
class FirstLawForAll(ToyDrafter):
    """Draws siblings without replacement and says that all were drawn from the first one's law."""

    def propose(self, rule, prefix, chooser):
        draft = super().propose(rule, prefix, chooser)
        trials = tuple(Sampled(t.token, 0) for t in draft.trials[0])
        return Draft(draft.tree, (trials, *draft.trials[1:]), draft.draft_probs)


def add(builder, draft, trial):
    """Add a trial of another draft's root."""
    if isinstance(trial, Sampled):
        builder.sampled(0, trial.token, draft.draft_probs[trial.law])
    else:
        builder.point(0, trial.token)


SIBLINGS = (Stem(DRAWN), Stem(DRAWN))
MUTANTS = [
    (ArgmaxAsSampled, chain(DRAWN), "token block multi"),
    (DropsUnlikely, chain(DRAWN), "token block multi"),
    (DropsUnlikely, chain(DRAWN, DRAWN), "token block multi"),
    (DropsDuplicates, (Stem(BEST), Stem(DRAWN)), "multi"),
    (RanksByValue, SIBLINGS, "multi"),
    (KeepsBest, SIBLINGS, "multi"),
    (FirstLawForAll, (Stem(DRAWN), Stem(Kind.DISTINCT)), "multi"),
]


@pytest.mark.parametrize(
    ("mutant", "shape", "name"),
    [(mutant, shape, name) for mutant, shape, names in MUTANTS for name in names.split()],
)
def test_drafter(caught, mutant, shape, name):
    def mutate(case):
        return {"drafter": mutant(case.drafter.q, shape)}

    assert caught(rules[name], mutate)


@pytest.mark.parametrize("name", ["token", "block", "multi"])
def test_drawn_tokens_may_pass_as_point_masses(name):
    """Not a mutant: whatever token is proposed, and why, a point mass is a valid trial of it."""
    for case in islice(cases(rules[name]), 6):
        drafter = DrawnAsPointMass(case.drafter.q, chain(DRAWN, DRAWN))
        assert violation(replace(case, drafter=drafter)) is None
