"""A smaller model of the same vocabulary drafts a chain (Leviathan et al., arXiv 2211.17192)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

import torch

from paceline.cache import BlockPool, Slots
from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.kernels.batch import Batch
from paceline.models import check_same_vocabulary, load_model
from paceline.runtime import Rows, Runner, pack, pack_next
from paceline.sampling import RowLaw, laws_and_failures
from paceline.tree import NO_DRAFT, Draft, PointMass, Sampled


@register("model")
@dataclass(frozen=True)
class DraftModel:
    """Options of a draft model: its name or path, the draft length, its precision.

    Its precision changes speed, never the text.
    """

    model: str
    k: int = 4
    dtype: str = "auto"
    quantize: str | None = None
    """int4 or int8; None leaves its matrices as they are stored."""
    head_ids: int | None = None
    """Draft only from the first so many ids, mostly the frequent ones; a head that is cut is
    quicker."""

    needs = Needs(sequential=True)

    def build(self, host: Host) -> LiveDrafter:
        """Load it beside the target; raises VocabularyError where its ids mean other text."""
        model = load_model(
            self.model,
            dtype=self.dtype,
            device=host.device,
            kernels=host.kernels,
            quantize=self.quantize,
            head_ids=self.head_ids,
        )
        check_same_vocabulary(
            host.target.tokenizer,
            model.tokenizer,
            host.target.spec.vocab_size,
            model.spec.vocab_size,
        )
        return LiveDraftModel(
            Runner.allocate(model, host.num_slots),
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
    fed: Sequence[int] = ()
    """Draft tokens of this pass's proposal that were fed to the draft, hence cached."""


class Cache(Protocol):
    """The books of a draft's keys and values."""

    @property
    def requests(self) -> dict[str, Filled]:
        """What is known of each request."""

    @property
    def flags(self) -> dict[int, int]:
        """Generation in which a block was filled."""

    def state(self, ctx: DraftContext) -> Filled:
        """The request's state."""

    def flag(self, ctx: DraftContext, state: Filled) -> None:
        """Flag the blocks that are filled."""


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
    """Runs the draft model; what its cache misses is filled in before it drafts."""

    def __init__(
        self, runner: Runner, cache: Cache, *, target_vocab_size: int, max_rows: int
    ) -> None:
        self._runner, self._cache = runner, cache
        self._max_model_len = runner.model.spec.max_model_len
        self._vocab_size, self._max_rows = target_vocab_size, max_rows

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Chains of the budget, cut at the end of the draft's own context."""
        try:
            chains = [
                chain
                for ctx, budget in zip(contexts, budgets, strict=True)
                if (chain := self._begin(ctx, budget)) is not None
            ]
            if chains:
                self._grow(chains)
        except BaseException:
            self._cache.flags.clear()  # They were set in advance of the passes.
            raise
        for chain in chains:
            self._cache.state(chain.ctx).fed = chain.tokens[:-1]
        drafts = {chain.ctx.request_id: chain.draft() for chain in chains}
        return [drafts.get(ctx.request_id, NO_DRAFT) for ctx in contexts]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Keep the cached draft tokens that were accepted."""
        for seen in observations:
            state = self._cache.requests.get(seen.context.request_id)
            if state is not None and state.fed:
                state.tokens += common_length(state.fed, seen.committed[: len(seen.path)])
                state.fed = ()
                self._cache.flag(seen.context, state)

    def release(self, request_id: str) -> None:
        """Forget the request; its flagged blocks stay good for the prefix cache."""
        self._cache.requests.pop(request_id, None)

    def _begin(self, ctx: DraftContext, budget: int) -> Chain | None:
        """The request's chain; None if its context is full or it has ids the draft has no row for.

        Its tokens count as cached at once, so a prefix it shares with a later one is fed once.
        """
        count, state = len(ctx.tokens), self._cache.state(ctx)
        cut = min(budget, self._max_model_len + 1 - count)
        if cut < 1 or max(ctx.tokens[state.tokens :]) >= self._runner.model.spec.vocab_size:
            return None
        chain = Chain(ctx, cut, state.tokens)
        state.tokens = count
        self._cache.flag(ctx, state)
        return chain

    def _grow(self, chains: Sequence[Chain]) -> None:
        """Run the draft once a depth, drawing a token a chain from each pass."""
        later = []
        for depth in range(1, max(chain.budget for chain in chains)):
            active = [chain for chain in chains if chain.budget > depth]
            later.append((active, pack_next([chain.slots(depth) for chain in active])))
        self._fill(chains)
        self._extend(chains, pack([chain.feed(chain.missing) for chain in chains]))
        for active, batch in later:
            batch.ids[:] = [chain.tokens[-1] for chain in active]
            self._extend(active, batch)

    def _extend(self, chains: Sequence[Chain], batch: Batch) -> None:
        """Run a pass whose logits are the chains', and draw the next token of each."""
        logits = self._runner.forward(batch).logits
        params, prefixes = [chain.ctx.params for chain in chains], None
        if any(p.adjusts for p in params):
            prefixes = [chain.ctx.prefix(tuple(chain.tokens)) for chain in chains]
        laws, _ = laws_and_failures(self._fit(logits), params, prefixes)
        for chain, law in zip(chains, laws, strict=True):
            chain.extend(law)

    def _fill(self, chains: Sequence[Chain]) -> None:
        """Feed what goes beyond the rows of one pass, in passes before it."""
        excess = sum(chain.missing for chain in chains) - self._max_rows
        while excess > 0:
            room, work = min(excess, self._max_rows), list[Rows]()
            for chain in chains:
                if room and chain.missing > 1:
                    work.append(chain.feed(min(chain.missing - 1, room)))
                    room -= len(work[-1].tokens)
            self._runner.forward(pack(work))
            excess -= self._max_rows

    def _fit(self, logits: torch.Tensor) -> torch.Tensor:
        """Cut or pad logits[N, V] to the target's vocabulary; padding ids have no mass."""
        missing = self._vocab_size - logits.shape[-1]
        if not missing:
            return logits
        return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two texts have in common from their beginnings on."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    return sum(1 for _ in pairs)


class Chain:
    """One request's draft as it grows."""

    def __init__(self, ctx: DraftContext, budget: int, cached: int) -> None:
        self.ctx, self.budget = ctx, budget
        self.tokens: list[int] = []
        self._laws: list[RowLaw] = []
        self._cached = cached

    @property
    def missing(self) -> int:
        """Committed tokens that the draft has not been fed."""
        return len(self.ctx.tokens) - self._cached

    def feed(self, count: int) -> Rows:
        """The rows of the next `count` committed tokens; the last of all has logits."""
        start, self._cached = self._cached, self._cached + count
        return Rows(
            tokens=self.ctx.tokens[start : self._cached],
            start=start,
            slots=self.ctx.table.slots(0, self._cached),
            logit_tokens=int(not self.missing),
        )

    def slots(self, drafted: int) -> Slots:
        """The slots of the committed tokens and of so many drafted ones."""
        return self.ctx.table.slots(0, len(self.ctx.tokens) + drafted)

    def extend(self, law: RowLaw) -> None:
        """Draw the next token from law[V]."""
        depth = len(self.tokens)
        self.tokens.append(self.ctx.choose(law, parent=depth, depth=depth))
        self._laws.append(law)

    def draft(self) -> Draft:
        """What was drawn, as the rule wants it told."""
        if not self.ctx.rule.sampled:
            return Draft.chain(map(PointMass, self.tokens))
        return Draft.chain(map(Sampled, self.tokens, range(len(self.tokens))), self._laws)
