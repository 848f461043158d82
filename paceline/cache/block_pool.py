"""The books of the paged KV cache: which block is whose, which may be shared, which is free.

Blocks are counted, not stored: the tensors are `kernels.KVTensors`. A block with no reference is
free; it keeps its content, and its place in the prefix index, until it is handed out again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from paceline.errors import CacheError, ConfigError

ROOT = b""
"""Digest of the empty prefix."""


def chain_digest(parent: bytes, tokens: Sequence[int]) -> bytes:
    """Digest of a block's whole prefix: its parent's digest and its own tokens."""
    return hashlib.sha256(parent + np.asarray(tokens, dtype=np.int64).tobytes()).digest()


class BlockPool:
    """Hands out blocks of `block_tokens` slots, counts references, finds cached prefixes."""

    def __init__(self, num_blocks: int, block_tokens: int, prefix_caching: bool = True) -> None:
        if num_blocks < 1 or block_tokens < 1:
            raise ConfigError("A block pool needs at least one block of at least one token.")
        self.num_blocks, self.block_tokens = num_blocks, block_tokens
        self.prefix_caching = prefix_caching
        self.generation = [0] * num_blocks
        """Rises when a block is handed out for new content: older flags about it are void."""
        self._references = [0] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._by_digest: dict[bytes, int] = {}
        self._digest_of: dict[int, bytes] = {}

    @property
    def free_count(self) -> int:
        """Blocks that can be handed out."""
        return len(self._free)

    @property
    def used_count(self) -> int:
        """Blocks that some request holds."""
        return self.num_blocks - len(self._free)

    def blocks_for(self, tokens: int) -> int:
        """How many blocks hold that many tokens."""
        return -(-tokens // self.block_tokens)

    def allocate(self, count: int) -> list[int]:
        """Hand out `count` blocks, least recently freed first; raises CacheError if too few."""
        if count > len(self._free):
            raise CacheError(f"{count} blocks are wanted, {len(self._free)} are free.")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self.generation[block] += 1
            self._references[block] = 1
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        """Give back one reference to each; the deepest become free, and are evicted, first."""
        for block in reversed(blocks):
            if self._references[block] < 1:
                raise CacheError(f"Block {block} is released but has no reference.")
            self._references[block] -= 1
            if not self._references[block]:
                self._free[block] = None

    def match(self, tokens: Sequence[int]) -> tuple[list[int], list[bytes]]:
        """Find and retain the cached blocks of the longest prefix of `tokens`.

        Returns the blocks and their digests. The last token is never part of it: its row must
        run, since its logits are wanted.
        """
        blocks: list[int] = []
        digests: list[bytes] = []
        size, parent = self.block_tokens, ROOT
        for end in range(size, len(tokens) if self.prefix_caching else 0, size):
            parent = chain_digest(parent, tokens[end - size : end])
            block = self._by_digest.get(parent)
            if block is None:
                break
            blocks.append(block)
            digests.append(parent)
        for block in blocks:
            self._references[block] += 1
            self._free.pop(block, None)
        return blocks, digests

    def publish(self, block: int, digest: bytes) -> None:
        """Make a full block findable under its digest; the first block of a digest stays."""
        if self.prefix_caching and digest not in self._by_digest:
            self._by_digest[digest] = block
            self._digest_of[block] = digest

    def forget_prefixes(self) -> None:
        """Empty the prefix index: what follows is computed afresh."""
        self._by_digest.clear()
        self._digest_of.clear()

    def check(self) -> None:
        """Raise CacheError unless the books balance."""
        for block, references in enumerate(self._references):
            if references < 0 or (references == 0) != (block in self._free):
                raise CacheError(f"Block {block} has {references} references and a wrong place.")
        for digest, block in self._by_digest.items():
            if self._digest_of.get(block) != digest:
                raise CacheError(f"Block {block} is indexed under a digest it does not have.")
        if len(self._by_digest) != len(self._digest_of):
            raise CacheError("The prefix index and its inverse differ.")

    def check_idle(self) -> None:
        """Raise CacheError unless the books balance and no block is held."""
        self.check()
        if self.used_count:
            raise CacheError(f"{self.used_count} blocks are still held though nothing runs.")

    def _forget(self, block: int) -> None:
        digest = self._digest_of.pop(block, None)
        if digest is not None:
            del self._by_digest[digest]
