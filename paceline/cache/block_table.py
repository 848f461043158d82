"""One request's blocks, in logical order, and the slots of its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from paceline.cache.block_pool import ROOT, BlockPool, chain_digest

Slots = NDArray[np.int64]


class BlockTable:
    """The blocks a request holds. Position t lies in slot `slots(t, t + 1)[0]`."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.blocks: list[int] = []
        self._digests: list[bytes] = []
        self._slots = np.empty(0, dtype=np.int64)

    def missing(self, tokens: int) -> int:
        """How many more blocks are needed to hold `tokens` tokens."""
        return max(0, self._pool.blocks_for(tokens) - len(self.blocks))

    def adopt_prefix(self, tokens: Sequence[int]) -> int:
        """Take over the cached blocks of a prefix; return how many tokens they hold."""
        assert not self.blocks
        blocks, self._digests = self._pool.match(tokens)
        self._append(blocks)
        return len(blocks) * self._pool.block_tokens

    def grow(self, tokens: int) -> None:
        """Hold blocks for `tokens` tokens; raises CacheError if the pool has too few."""
        missing = self.missing(tokens)
        if missing:
            self._append(self._pool.allocate(missing))

    def publish(self, tokens: Sequence[int], computed: int) -> None:
        """Offer the blocks that lie wholly in the first `computed` tokens to the prefix index."""
        size = self._pool.block_tokens
        for index in range(len(self._digests), computed // size):
            parent = self._digests[-1] if self._digests else ROOT
            digest = chain_digest(parent, tokens[index * size : (index + 1) * size])
            self._digests.append(digest)
            self._pool.publish(self.blocks[index], digest)

    def release(self) -> None:
        """Give every block back."""
        self._pool.release(self.blocks)
        self.blocks, self._digests = [], []
        self._slots = np.empty(0, dtype=np.int64)

    def slots(self, start: int, stop: int) -> Slots:
        """slots[stop - start] of the positions start .. stop - 1; a view, not to be written."""
        return self._slots[start:stop]

    def _append(self, blocks: list[int]) -> None:
        self.blocks += blocks
        size = self._pool.block_tokens
        starts = np.asarray(blocks, dtype=np.int64)[:, None] * size
        self._slots = np.concatenate([self._slots, (starts + np.arange(size)).ravel()])
