"""Drafts of two sources in one tree keep the target's law, by enumeration over several passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from paceline.certify import Case, violation
from paceline.certify.toys import Kind, ToyDrafter, chain, mimic, toy
from paceline.drafters.joint import SOURCE_ROWS
from paceline.drafters.merged import graft
from paceline.tree import DraftBuilder
from paceline.verify import rules

SHAPES = (
    (chain(Kind.ANY, Kind.ANY), chain(Kind.DRAWN, Kind.DRAWN)),
    (chain(Kind.DRAWN, Kind.DRAWN), chain(Kind.DRAWN, Kind.DRAWN)),
    (chain(Kind.DRAWN), chain(Kind.BEST, Kind.DRAWN)),
    (chain(Kind.DRAWN), chain(Kind.DRAWN)),
)


@dataclass(frozen=True)
class Apart:
    """A chooser whose draws are those of one source: what `SourceKeyed` is to `Keyed`."""

    chooser: Any
    source: int

    @property
    def base(self) -> int:
        return self.chooser.base

    def categorical(self, weights: Any, draw: Any) -> int:
        own = draw._replace(row=draw.row + self.source * SOURCE_ROWS)
        return self.chooser.categorical(weights, own)

    def race(self, law: Any, position: int, rank: int = 0) -> int:
        return self.chooser.race(law, position, rank)


@dataclass(frozen=True)
class Two:
    """Two toy drafters, merged."""

    sources: tuple[ToyDrafter, ...]
    apart: int = 1

    def propose(self, rule: Any, prefix: tuple[int, ...], chooser: Any) -> Any:
        builder = DraftBuilder()
        for number, source in enumerate(self.sources):
            own = Apart(chooser, number * self.apart)
            graft(builder, source.propose(rule, prefix, own))
        return builder.build()


def merged(rule: str, shape: int, seed: int, apart: int = 1, V: int = 2) -> Case:
    target = toy(seed, V)
    shapes = SHAPES[shape]
    sources = (
        ToyDrafter(mimic(target, toy(seed + n + 1, V), seed), s) for n, s in enumerate(shapes)
    )
    return Case(rules[rule], target, Two(tuple(sources), apart), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("rule", ["multi", "traversal"])
def test_the_law_is_the_targets(rule: str, shape: int) -> None:
    assert [violation(merged(rule, shape, seed)) for seed in range(2)] == [None] * 2


@pytest.mark.parametrize("rule", ["multi", "traversal"])
def test_two_sources_with_the_same_draws_would_bias(rule: str) -> None:
    """Why each source has addresses of its own: the second trial must not repeat the first.

    Of two ids a rejection leaves only one, so it takes three.
    """
    assert violation(merged(rule, 3, seed=1, V=3)) is None
    assert violation(merged(rule, 3, seed=1, V=3, apart=0))
