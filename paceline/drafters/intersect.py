"""A draft model with another tokenizer drafts the tokens that both vocabularies have.

Token-level intersection (Timor et al., arXiv 2502.05202, section 5): q is the draft's law, limited
to the shared tokens and renormalised, written in the target's ids. A rule is exact for any q, so
nothing else changes. The draft reads the committed text in its own ids, and keeps its own cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from paceline.cache import BlockPool, BlockTable
from paceline.drafters.base import DraftContext, Observation
from paceline.drafters.chains import Chain, Grower, common_length
from paceline.drafters.host import Host
from paceline.errors import VocabularyError
from paceline.models import Tokenizer
from paceline.runtime import Runner
from paceline.tree import NO_DRAFT, Draft

TAIL = 16
"""Own tokens at the end of a text that more text may still change."""


class SharedIds:
    """The tokens that two vocabularies have, by the bytes they add to a text.

    Where several ids of a model add the same bytes, the lowest stands for them. A token that steers
    one model and is text to the other is not shared.

    Raises:
        VocabularyError: no token is.
    """

    def __init__(self, target: Tokenizer, own: Tokenizer, target_size: int, own_size: int) -> None:
        theirs, ours = by_bytes(target, target_size), by_bytes(own, own_size)
        pairs = sorted((theirs[key], ours[key]) for key in theirs.keys() & ours.keys())
        if not pairs:
            raise VocabularyError("The draft and the target share no token; choose another draft.")
        self._target_size = target_size
        self._targets, self._owns = torch.tensor(pairs).T
        self._own_of = dict(pairs)

    def __contains__(self, token: int) -> bool:
        return token in self._own_of

    def to_target(self, logits: Tensor) -> Tensor:
        """logits[N, own V] of the shared tokens as logits[N, V]; the others have no mass."""
        shape, device = (len(logits), self._target_size), logits.device
        found = torch.full(shape, -torch.inf, dtype=logits.dtype, device=device)
        found[:, self._targets.to(device)] = logits[:, self._owns.to(device)]
        return found

    def to_own(self, token: int) -> int:
        """The draft's id of a shared token."""
        return self._own_of.get(token, 0)


def by_bytes(tokenizer: Tokenizer, size: int) -> dict[tuple[bytes, bool], int]:
    """(bytes, whether it steers the model) -> the lowest such id below `size`."""
    found: dict[tuple[bytes, bool], int] = {}
    for i in sorted(i for i in tokenizer.names() if i < size):
        if piece := tokenizer.token_bytes(i):
            found.setdefault((piece, i in tokenizer.special_ids), i)
    return found


class Reading:
    """One request's text in the draft's ids; what new text may change is read again, no more."""

    def __init__(self, target: Tokenizer, own: Tokenizer) -> None:
        self._target, self._own = target, own
        self._text, self._tokens = bytearray(), 0
        self.ids: list[int] = []
        self._ends: list[int] = []
        """Where in the text each id ends, as far as that is known."""

    def update(self, tokens: Sequence[int]) -> list[int]:
        """The ids of the text of a request's tokens, whose beginning was read before.

        Half a character at its end is left for later.
        """
        self._text += b"".join(map(self._bytes, tokens[self._tokens :]))
        self._tokens = len(tokens)
        kept = self._stable()
        if not (kept and self._extend(kept)):
            self._restart()
        return self.ids

    def _bytes(self, token: int) -> bytes:
        """What a token adds to the text; those that steer the target add nothing."""
        return b"" if token in self._target.special_ids else self._target.token_bytes(token)

    def _stable(self) -> int:
        """How many ids stay: all but the last few, up to the end of a character."""
        kept = min(len(self._ends), len(self.ids) - TAIL)
        while kept > 0 and self._text[self._ends[kept - 1]] & 0xC0 == 0x80:
            kept -= 1
        return max(0, kept)

    def _extend(self, kept: int) -> bool:
        """Read on behind so many ids; False where the tokenizer adds what is not there."""
        start = self._ends[kept - 1]
        tail = self._text[start:].decode("utf-8", "ignore")
        ids = self._own.encode(tail, parse_special=True)
        pieces = list(map(self._own.token_bytes, ids))
        if b"".join(pieces) != tail.encode():
            return False
        self.ids = self.ids[:kept] + ids
        self._ends = self._ends[:kept] + list(accumulate(map(len, pieces), initial=start))[1:]
        return True

    def _restart(self) -> None:
        """Read all of it, what starts a text included."""
        text = self._text.decode("utf-8", "ignore")
        self.ids = self._own.encode(text, add_special=True, parse_special=True)
        pieces = list(map(self._own.token_bytes, self.ids))
        lead = sum(map(len, pieces)) - len(text.encode())  # a token, or a blank, that starts it
        exact = lead >= 0 and b"".join(pieces)[lead:] == text.encode()
        self._ends = [max(0, end - lead) for end in accumulate(map(len, pieces))] if exact else []


@dataclass(eq=False)
class State:
    """A request's text, and what of it the draft's cache holds."""

    reading: Reading
    table: BlockTable
    cached: list[int] = field(default_factory=list)
    """The ids whose keys and values are in the table's slots, in order."""


class LiveIntersect:
    """Runs the draft model beside a target of another vocabulary."""

    def __init__(self, runner: Runner, host: Host, own_size: int) -> None:
        """Raises VocabularyError where no token is shared; `own_size` is that of its logits."""
        target, own = host.target, runner.model
        self._tokenizers = target.tokenizer, own.tokenizer
        self._shared = SharedIds(*self._tokenizers, target.spec.vocab_size, own_size)
        self._grower = Grower(runner, self._shared, host.max_rows)
        self._pool = BlockPool(host.pool.num_blocks, host.pool.block_tokens, prefix_caching=False)
        self._max_model_len = own.spec.max_model_len
        self._states: dict[str, State] = {}

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Chains of the budget, cut at the end of the draft's own context."""
        pairs = zip(contexts, budgets, strict=True)
        chains = {
            ctx.request_id: chain for ctx, budget in pairs if (chain := self._begin(ctx, budget))
        }
        if chains:
            self._grower.grow(list(chains.values()))
        for name, chain in chains.items():
            state = self._states[name]
            state.cached = state.reading.ids + list(map(self._shared.to_own, chain.tokens[:-1]))
        return [
            chains[ctx.request_id].draft() if ctx.request_id in chains else NO_DRAFT
            for ctx in contexts
        ]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Nothing to learn: the next proposal compares the ids themselves."""

    def release(self, request_id: str) -> None:
        """Forget the request and give its blocks back."""
        if state := self._states.pop(request_id, None):
            state.table.release()

    def _begin(self, ctx: DraftContext, budget: int) -> Chain | None:
        """The request's chain; None if its context is full, or no blocks are left for it."""
        state = self._states.get(ctx.request_id)
        if state is None:
            state = State(Reading(*self._tokenizers), BlockTable(self._pool))
            self._states[ctx.request_id] = state
        ids = state.reading.update(ctx.tokens)
        cut = min(budget, self._max_model_len + 1 - len(ids))
        if cut < 1 or not ids:
            return None
        if state.table.missing(len(ids) + cut - 1) > self._pool.free_count:
            state.table.release()
            state.cached = []
            return None
        state.table.grow(len(ids) + cut - 1)
        held = min(common_length(state.cached, ids), len(ids) - 1)
        state.cached = ids[:held]  # should the passes fail
        return Chain(ctx, cut, held, ids, state.table)
