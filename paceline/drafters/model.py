"""A smaller model drafts a chain (Leviathan et al., arXiv 2211.17192)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from paceline.cache import BlockPool
from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.chains import Chain, Grower, SameIds, common_length
from paceline.drafters.host import Host
from paceline.drafters.intersect import LiveIntersect
from paceline.errors import ConfigError
from paceline.models import check_same_vocabulary, load_model
from paceline.runtime import Runner
from paceline.tree import NO_DRAFT, Draft


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

    vocabulary: str = "same"
    """same: ids must mean the same text to both models; intersect: drafts are of the tokens that
    both vocabularies have (Timor et al., arXiv 2502.05202), each reads the text by its own ids."""

    needs = Needs(sequential=True)

    def build(self, host: Host) -> LiveDrafter:
        """Load it beside the target.

        Raises:
            VocabularyError: its ids mean other text, or no token is shared.
            ConfigError: an unknown kind of vocabulary.
        """
        if self.vocabulary not in ("same", "intersect"):
            raise ConfigError(f"vocabulary must be same or intersect, not '{self.vocabulary}'.")
        model = load_model(
            self.model,
            dtype=self.dtype,
            device=host.device,
            kernels=host.kernels,
            quantize=self.quantize,
            head_ids=self.head_ids,
        )
        runner = Runner.allocate(model, host.num_slots)
        if self.vocabulary == "intersect":
            return LiveIntersect(runner, host, self.head_ids or model.spec.vocab_size)
        check_same_vocabulary(
            host.target.tokenizer,
            model.tokenizer,
            host.target.spec.vocab_size,
            model.spec.vocab_size,
        )
        return LiveDraftModel(
            runner,
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
        self._grower = Grower(runner, SameIds(target_vocab_size), max_rows)

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Chains of the budget, cut at the end of the draft's own context."""
        try:
            chains = [
                chain
                for ctx, budget in zip(contexts, budgets, strict=True)
                if (chain := self._begin(ctx, budget)) is not None
            ]
            if chains:
                self._grower.grow(chains)
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

    def fork(self, request_id: str, other: str) -> None:
        """Let `other` begin where the request is; up to there both have the same slots."""
        if state := self._cache.requests.get(request_id):
            self._cache.requests[other] = replace(state)

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
        chain = Chain(ctx, cut, state.tokens, ctx.tokens, ctx.table)
        state.tokens = count
        self._cache.flag(ctx, state)
        return chain
