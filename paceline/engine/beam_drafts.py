"""Draft trees for beams: what a drafter proposes, widened where it tells its laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from paceline.cache import BlockPool, BlockTable, Slots
from paceline.chooser import Keyed
from paceline.drafters import DraftContext, LiveDrafter
from paceline.sampling import History
from paceline.tree import NO_DRAFT, Draft, DraftBuilder, Sampled
from paceline.types import SamplingParams
from paceline.verify import Rule
from paceline.verify.laws import as_law

DRAFTING = SamplingParams(temperature=0.25)
"""Drafters that sample follow their likeliest tokens, mostly, and tell their laws."""
NOWHERE = np.empty(0, dtype=np.int64)


@runtime_checkable
class Forking(Protocol):
    """A drafter with a cache that a beam may take over from the one it grew from."""

    def fork(self, request_id: str, other: str) -> None:
        """Let `other` begin where the request is; up to there both have the same slots."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Beam:
    """A beam between two passes."""

    name: str
    tokens: tuple[int, ...]
    """Prompt and output."""
    logprob: float = 0.0
    slots: Slots = field(default_factory=lambda: NOWHERE)
    """Where the keys and values of all tokens but the last are, or of fewer while prefilling."""


class PathTable(BlockTable):
    """The slots of one beam, in the place of a request's blocks."""

    def __init__(self, pool: BlockPool, slots: Slots) -> None:
        super().__init__(pool)
        self._slots = slots


@dataclass(frozen=True, eq=False, kw_only=True)
class Speculator:
    """Makes the beams' draft trees."""

    live: LiveDrafter
    rule: Rule
    k: int
    pool: BlockPool
    width: int
    """Siblings that a node may get."""

    def drafts(
        self, beams: Sequence[Beam], own: Sequence[Slots], prompt_tokens: int, k: int
    ) -> list[Draft]:
        """A chain or tree of at most `k` nodes a beam, then siblings in what `own` slots are left.

        own[i] are slots for the beam's last token and for every node.
        """
        if k < 1:
            return [NO_DRAFT] * len(beams)
        contexts = [
            self._context(beam, slots, prompt_tokens)
            for beam, slots in zip(beams, own, strict=True)
        ]
        drafts = self.live.propose(contexts, [k] * len(beams))
        return [
            widened(draft, self.width, len(slots) - 1)
            for draft, slots in zip(drafts, own, strict=True)
        ]

    def _context(self, beam: Beam, own: Slots, prompt_tokens: int) -> DraftContext:
        tokens = list(beam.tokens)
        return DraftContext(
            request_id=beam.name,
            owner=beam.name,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            params=DRAFTING,
            rule=self.rule,
            chooser=Keyed(0, 0, len(tokens) - prompt_tokens),
            table=PathTable(self.pool, np.concatenate([beam.slots, own])),
            preemptions=0,
            history=History(tokens, prompt_tokens),
        )

    def succeed(self, old: Sequence[Beam], new: Sequence[tuple[str, Beam]]) -> None:
        """Let new beams take over from those they grew from; (name of the old one, beam)."""
        if isinstance(self.live, Forking):
            for name, beam in new:
                self.live.fork(name, beam.name)
        for beam in old:
            self.live.release(beam.name)


def widened(draft: Draft, siblings: int, room: int) -> Draft:
    """The draft's tree and, where its laws are told, their likeliest tokens beside each of it."""
    builder = DraftBuilder()
    for token, parent in zip(draft.tree.tokens, draft.tree.parents, strict=True):
        builder.point(parent, token)
    for row, trials in enumerate(draft.trials):
        for trial in trials:
            if isinstance(trial, Sampled):
                law = np.asarray(list(as_law(draft.draft_probs[trial.law])))
                for token in np.argsort(-law, kind="stable")[:siblings].tolist():
                    if len(builder) < room or token in draft.tree.children[row]:
                        builder.point(row, token)
    return builder.build()
