"""A smaller model of the same vocabulary drafts a chain (Leviathan et al., arXiv 2211.17192)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from paceline.cache import BlockPool
from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.models import check_same_vocabulary, load_model
from paceline.runtime import Rows, Runner
from paceline.sampling import RowLaw, to_laws
from paceline.tree import NO_DRAFT, Draft, DraftBuilder


@register("model")
@dataclass(frozen=True)
class DraftModel:
    """Options of a draft model: its name or path, the draft length, its precision."""

    model: str
    k: int = 4
    dtype: str = "auto"

    needs = Needs()

    def build(self, host: Host) -> LiveDrafter:
        """Load it beside the target; raises VocabularyError where its ids mean other text."""
        model = load_model(self.model, dtype=self.dtype, device=host.device, kernels=host.kernels)
        check_same_vocabulary(
            host.target.tokenizer,
            model.tokenizer,
            host.target.spec.vocab_size,
            model.spec.vocab_size,
        )
        return LiveDraftModel(
            Runner(model, host.pool.num_blocks * host.pool.block_tokens),
            DraftCache(host.pool),
            target_vocab_size=host.target.spec.vocab_size,
            max_rows=host.max_rows,
        )


@dataclass(eq=False)
class Filled:
    """How much of one request is in the draft's cache."""

    tokens: int
    preemptions: int
    flagged: int = 0
    """Leading blocks that are flagged as filled."""
    fed: int = 0
    """Draft tokens of the last proposal that were fed to the draft, hence cached."""


@dataclass(frozen=True, eq=False)
class DraftCache:
    """Which slots hold the draft's keys and values; it shares the target's block ids.

    A block is flagged with the generation in which it was filled, so a block that changed hands
    counts as empty, and a block shared through the prefix cache is filled once for all.
    """

    pool: BlockPool
    requests: dict[str, Filled] = field(default_factory=dict)
    flags: dict[int, int] = field(default_factory=dict)

    def state(self, ctx: DraftContext) -> Filled:
        """The request's state; after a preemption, or for a new one, as the flags tell."""
        state = self.requests.get(ctx.request_id)
        if state is None or state.preemptions != ctx.preemptions:
            count = 0
            for block in ctx.table.blocks:
                if self.flags.get(block) != self.pool.generation[block]:
                    break
                count += 1
            tokens = min(count * self.pool.block_tokens, len(ctx.tokens) - 1)
            state = self.requests[ctx.request_id] = Filled(tokens, ctx.preemptions, count)
        return state

    def flag(self, ctx: DraftContext, state: Filled) -> None:
        """Flag the blocks that now hold committed tokens only, all of them filled."""
        full = state.tokens // self.pool.block_tokens
        for block in ctx.table.blocks[state.flagged : full]:
            self.flags[block] = self.pool.generation[block]
        state.flagged = max(state.flagged, full)


class LiveDraftModel:
    """Runs the draft model; what its cache misses is filled in one sweep before it drafts."""

    def __init__(
        self, runner: Runner, cache: DraftCache, *, target_vocab_size: int, max_rows: int
    ) -> None:
        self._runner, self._cache = runner, cache
        self._max_model_len = runner.model.spec.max_model_len
        self._vocab_size, self._max_rows = target_vocab_size, max_rows

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Chains of the budget, cut at the end of the draft's own context."""
        growing = [
            Chain(ctx, cut, self._cache.state(ctx))
            for ctx, budget in zip(contexts, budgets, strict=True)
            if (cut := min(budget, self._max_model_len + 1 - len(ctx.tokens))) > 0
            and self._can_read(ctx)
        ]
        self._fill(growing)
        active = growing
        while active:
            logits = self._runner.forward([chain.rows() for chain in active]).logits
            laws = to_laws(self._fit(logits), [chain.ctx.params for chain in active])
            for chain, law in zip(active, laws, strict=True):
                chain.extend(law)
            active = [chain for chain in active if len(chain.builder) < chain.budget]
        drafts = {chain.ctx.request_id: chain.builder.build() for chain in growing}
        return [drafts.get(ctx.request_id, NO_DRAFT) for ctx in contexts]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Keep the cached draft tokens that were accepted."""
        for seen in observations:
            state = self._cache.requests.get(seen.context.request_id)
            if state is not None:
                state.tokens += min(state.fed, len(seen.path))
                state.fed = 0
                self._cache.flag(seen.context, state)

    def release(self, request_id: str) -> None:
        """Forget the request; its flagged blocks stay good for the prefix cache."""
        self._cache.requests.pop(request_id, None)

    def _fill(self, chains: Sequence[Chain]) -> None:
        """Feed all but the last token of each request, in passes of at most max_rows rows."""
        room, work = self._max_rows, list[Rows]()
        for chain in chains:
            while chain.missing > 1:
                count = min(chain.missing - 1, room)
                work.append(chain.fill(count))
                room -= count
                if not room:
                    self._runner.forward(work)
                    room, work = self._max_rows, []
        if work:
            self._runner.forward(work)
        for chain in chains:
            self._cache.flag(chain.ctx, chain.state)

    def _can_read(self, ctx: DraftContext) -> bool:
        """Whether the draft has a row for every id it must be fed; a target may have more ids."""
        unread = ctx.tokens[self._cache.state(ctx).tokens :]
        return max(unread) < self._runner.model.spec.vocab_size

    def _fit(self, logits: torch.Tensor) -> torch.Tensor:
        """Cut or pad logits[N, V] to the target's vocabulary; padding ids have no mass."""
        missing = self._vocab_size - logits.shape[-1]
        if not missing:
            return logits
        return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)


class Chain:
    """One request's draft as it grows."""

    def __init__(self, ctx: DraftContext, budget: int, state: Filled) -> None:
        self.ctx, self.budget, self.state = ctx, budget, state
        self.builder = DraftBuilder()
        state.fed = 0

    @property
    def missing(self) -> int:
        """Committed tokens that the draft has not been fed."""
        return len(self.ctx.tokens) - self.state.tokens

    def fill(self, count: int) -> Rows:
        """The rows of the next `count` committed tokens, which count as cached from here on."""
        start = self.state.tokens
        self.state.tokens += count
        return Rows(
            tokens=self.ctx.tokens[start : start + count],
            start=start,
            slots=self.ctx.table.slots(0, start + count),
            wants_logits=False,
        )

    def rows(self) -> Rows:
        """The row whose logits say the next draft token: the last one committed or drafted."""
        depth = len(self.builder)
        if not depth:
            return replace(self.fill(1), wants_logits=True)
        self.state.fed += 1
        position = len(self.ctx.tokens) + depth - 1
        return Rows(
            tokens=[self.token], start=position, slots=self.ctx.table.slots(0, position + 1)
        )

    def extend(self, law: RowLaw) -> None:
        """Draw the next token from law[V]."""
        depth = len(self.builder)
        row = self.ctx.draw(self.builder, depth, depth, law)
        self.token = self.builder.token(row)
