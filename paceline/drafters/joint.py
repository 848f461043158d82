"""What drafters that join others share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.chooser import Draw, Keyed, Law
from paceline.drafters.base import (
    DraftContext,
    Drafter,
    LiveDrafter,
    Needs,
    Observation,
    layers_of,
)
from paceline.drafters.host import Host
from paceline.errors import ConfigError
from paceline.tree import Draft, Sampled


@dataclass(frozen=True, eq=False)
class Source:
    """One of the drafters that are joined."""

    live: LiveDrafter
    k: int
    """Most nodes that it drafts, whatever the joint has left."""

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Its drafts, of at most its own k."""
        return self.live.propose(contexts, [min(budget, self.k) for budget in budgets])


Sources = Sequence[Source]
Propose = Callable[[Sources, Sequence[DraftContext], Sequence[int]], list[Draft]]
"""How the drafts of several sources become one draft a context."""

SOURCE_ROWS = 1 << 32
"""Rows set apart for each source in the addresses of its draws."""


class Joint:
    """Base of options that make one drafter of several.

    A subclass is a frozen dataclass with a field `k` and a method `propose`.
    """

    k: int

    def build(self, host: Host) -> LiveDrafter:
        """A joint joins nothing by itself; `join` gives what can be built."""
        raise ConfigError(f"{type(self).__name__} needs drafters to join: NAME+NAME.")

    def join(self, sources: tuple[Drafter, ...]) -> Drafter:
        """The options of these drafters, joined."""
        return Joined(self, sources)

    def propose(
        self, sources: Sources, contexts: Sequence[DraftContext], budgets: Sequence[int]
    ) -> list[Draft]:
        """One draft a context from several sources."""
        raise NotImplementedError


@dataclass(frozen=True)
class Joined:
    """Options of several drafters that propose as one."""

    joint: Joint
    sources: tuple[Drafter, ...]

    @property
    def k(self) -> int:
        """Nodes of a draft."""
        return self.joint.k

    @property
    def needs(self) -> Needs:
        """A rule that verifies trees, and what the sources need."""
        deep = [one.k for one in self.sources if one.needs.sequential]
        return Needs(trees=True, sequential=bool(deep), most_passes=sum(deep) or None)

    def build(self, host: Host) -> LiveDrafter:
        """Build every source."""
        sources = [Source(source.build(host), source.k) for source in self.sources]
        pairs = zip(self.sources, sources, strict=True)
        layers = {layer for options, source in pairs for layer in layers_of(options, source.live)}
        return LiveJoint(self.joint.propose, sources, tuple(sorted(layers)))


class LiveJoint:
    """Holds the sources; it has no state of its own."""

    def __init__(self, propose: Propose, sources: Sources, hidden_layers: tuple[int, ...]) -> None:
        self._propose, self._sources, self.hidden_layers = propose, sources, hidden_layers

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """As the joint has it."""
        return self._propose(self._sources, contexts, budgets)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Each source sees what the pass verified, whoever proposed it."""
        for source in self._sources:
            source.live.observe(observations)

    def release(self, request_id: str) -> None:
        """Every source forgets the request."""
        for source in self._sources:
            source.live.release(request_id)


@dataclass(frozen=True)
class SourceKeyed(Keyed):
    """The chooser of one source among several: no two of them share a draw.

    Two trials of one node from the same uniform would not be independent.
    """

    source: int = 0

    def categorical(self, weights: Law, draw: Draw) -> int:
        """A draw at the source's own address."""
        own = draw._replace(row=draw.row + self.source * SOURCE_ROWS)
        return super().categorical(weights, own)


def of_source(ctx: DraftContext, source: int) -> DraftContext:
    """The context as the source of that number sees it."""
    if not source:
        return ctx
    chooser = ctx.chooser
    own = SourceKeyed(chooser.seed, chooser.choice, chooser.base, source)
    return replace(ctx, chooser=own)


def is_drawn(draft: Draft) -> bool:
    """Whether any of its trials was sampled, so that its size may depend on what came out."""
    return any(isinstance(trial, Sampled) for trials in draft.trials for trial in trials)
