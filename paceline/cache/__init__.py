"""The paged KV cache's books: blocks, references, cached prefixes."""

from paceline.cache.block_pool import BlockPool
from paceline.cache.block_table import BlockTable, Slots

__all__ = ["BlockPool", "BlockTable", "Slots"]
