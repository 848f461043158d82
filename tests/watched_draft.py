"""A draft model under watch: what each of its rows reads, proposes and writes is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.cache import BlockPool, BlockTable
from paceline.chooser import Draw, Purpose
from paceline.drafters import DraftContext
from paceline.drafters.model import LiveDraftModel
from paceline.engine import Engine
from paceline.kernels.batch import Batch, KVTensors, PassOutput
from paceline.sampling import to_probs
from paceline.tree import Draft
from paceline.types import Request
from tests.engines import TARGET, run
from tests.oracle import Oracle, noise

DRAFTER = "model:draft"

Written = tuple[int, tuple[int, ...]]
"""What a slot holds: the generation of its block, and the path up to its token."""


@dataclass
class DraftOracle(Oracle):
    """An oracle that agrees with the target more or less, and records what its rows do."""

    off: float = 0.7
    pool: BlockPool = field(init=False)
    read: list[tuple[int, ...]] = field(default_factory=list)
    """The paths of the rows whose logits were wanted."""
    filled: list[int] = field(default_factory=list)
    """The slots of the other rows."""
    content: dict[int, Written] = field(default_factory=dict)

    def logits(self, tokens: Sequence[int]) -> Tensor:
        return super().logits(tokens) + self.off * noise(99, tuple(tokens), self.vocab_size)

    def written(self, slot: int, path: Sequence[int]) -> Written:
        return self.pool.generation[slot // self.pool.block_tokens], tuple(path)

    def forward(self, batch: Batch, kv: KVTensors) -> PassOutput:
        out, wanted = super().forward(batch, kv), set(batch.logit_rows.tolist())
        for segment in batch.segments:
            before, rows = len(segment.context_slots), range(segment.rows)
            own = batch.slots[segment.start : segment.start + segment.rows]
            slots = torch.cat([segment.context_slots, own]).tolist()
            tokens = kv.keys[0, slots, 0, 0].int().tolist()
            for row, end in zip(rows, range(before + 1, before + 1 + len(rows)), strict=True):
                if segment.start + row in wanted:
                    self.read.append(tuple(tokens[:end]))
                else:
                    self.filled.append(slots[end - 1])
                self.content[slots[end - 1]] = self.written(slots[end - 1], tokens[:end])
        return out


@dataclass(eq=False)
class Watched:
    """An engine whose draft model is checked at every proposal."""

    engine: Engine
    draft: DraftOracle
    rows: list[int] = field(default_factory=list)
    """Rows that the draft ran for each call of propose."""
    proposed: dict[str, list[tuple[int, Draft]]] = field(default_factory=dict)
    """Per request: the tokens there were, and what was drafted."""
    preempted: int = 0
    """Drafts of requests that had been preempted before."""
    known: set[tuple[BlockTable, int]] = field(default_factory=set)
    """Requests that drafted before, and how often they had been preempted then."""

    def __post_init__(self) -> None:
        self.draft.pool = self.engine.pool
        self._propose = self.live.propose
        self.live.propose = self.propose  # type: ignore[method-assign]

    @property
    def live(self) -> LiveDraftModel:
        live = self.engine._drafters[DRAFTER].live
        assert isinstance(live, LiveDraftModel)
        return live

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        self.draft.passes.clear()
        room, max_rows = self.draft.max_model_len + 1, self.engine.config.scheduler.max_rows
        lengths = [
            max(0, min(budget, room - len(ctx.tokens)))
            if max(ctx.tokens) < self.draft.vocab_size
            else 0
            for ctx, budget in zip(contexts, budgets, strict=True)
        ]
        growing = [ctx for ctx, length in zip(contexts, lengths, strict=True) if length]
        missing = {slot for ctx in growing for slot in self.missing(ctx)}
        drafts, paths = self._propose(contexts, budgets), []
        for ctx, length, draft in zip(contexts, lengths, drafts, strict=True):
            check(draft, ctx, length, self.draft)
            paths += [(*ctx.tokens, *draft.tree.tokens[:depth]) for depth in range(length)]
            self.proposed.setdefault(ctx.request_id, []).append((len(ctx.tokens), draft))
            self.preempted += length > 0 and ctx.preemptions > 0
        assert sorted(self.draft.read) == sorted(paths)
        assert sorted(self.draft.filled) == sorted(missing)
        self.draft.read.clear()
        self.draft.filled.clear()
        self.known |= {(ctx.table, ctx.preemptions) for ctx in growing}
        fed = len(missing) + len(growing)
        assert len(self.draft.passes) <= max(-(-fed // max_rows) - 1, 0) + max(lengths)
        assert max(self.draft.passes, default=0) <= max_rows
        self.rows.append(sum(self.draft.passes))
        return drafts

    def missing(self, ctx: DraftContext) -> list[int]:
        """Slots of the tokens but the last whose keys the draft lacks.

        To a request that starts, only blocks that are full count.
        """
        slots, held = ctx.table.slots(0, len(ctx.tokens) - 1).tolist(), 0
        for end, slot in enumerate(slots, start=1):
            if self.draft.content.get(slot) != self.draft.written(slot, ctx.tokens[:end]):
                break
            held = end
        if (ctx.table, ctx.preemptions) not in self.known:
            held -= held % self.engine.pool.block_tokens
        return slots[held:]

    def run(self, *requests: Request) -> list[int]:
        """Run requests to their end; the rows of each proposal meanwhile."""
        self.rows.clear()
        run(self.engine, *requests)
        return list(self.rows)

    def step_until(self, name: str, drafts: int) -> None:
        """Step until the request had so many drafts."""
        while len(self.proposed.get(name, ())) < drafts:
            self.engine.step()

    def drain(self) -> None:
        while self.engine.has_work:
            self.engine.step()
        self.engine.pool.check_idle()


def check(draft: Draft, ctx: DraftContext, length: int, oracle: Oracle) -> None:
    """See that the draft is what a fresh model proposes from the tokens, law by law."""
    tokens, sampled = list(ctx.tokens), list[Tensor]()
    for depth in range(length):
        law = law_after(tokens, ctx, oracle)
        place = ctx.chooser.base + depth
        if ctx.params.temperature == 0:
            token = int(law.argmax())
        elif ctx.params.seed is not None:
            token = ctx.chooser.race(law.numpy(), place)
        else:
            token = ctx.chooser.categorical(law.numpy(), Draw(place, depth, 0, Purpose.DRAFT))
            sampled.append(law)
        tokens.append(token)
    assert list(draft.tree.tokens) == tokens[len(ctx.tokens) :]
    assert draft.is_chain
    if sampled:
        assert torch.equal(draft.draft_probs, torch.stack(sampled))
    else:
        assert draft.draft_probs is None


def law_after(tokens: Sequence[int], ctx: DraftContext, oracle: Oracle) -> Tensor:
    """law[V of the target]: ids that the draft does not have are impossible, others are cut."""
    logits = torch.full((TARGET.vocab_size,), -torch.inf)
    own = oracle.logits(tokens)[: TARGET.vocab_size]
    logits[: len(own)] = own
    return to_probs(logits[None], [ctx.params])[0]
