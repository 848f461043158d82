"""Memory for packed weights: side by side in huge pages, in the order in which a pass reads them.

A mapping for each matrix would leave its ends, and small matrices whole, in small pages.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Callable

import torch
from torch import Tensor

CHUNK_BYTES = 64 << 20
HUGE_PAGE = 2 << 20
LINE = 64


class Arena:
    """Cuts buffers from mappings of `chunk_bytes`, each of which lives as long as its buffers."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._chunk: Callable[[], mmap.mmap | None] = lambda: None
        self._at = 0
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> Tensor:
        """buffer[size_bytes] uint8, zero and aligned to 64 bytes."""
        if size_bytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        with self._lock:
            chunk = self._chunk()
            if chunk is None or self._at + size_bytes > len(chunk):
                chunk = mapping(max(size_bytes, self._chunk_bytes) + HUGE_PAGE)
                self._chunk, self._at = weakref.ref(chunk), -address(chunk) % HUGE_PAGE
            at = self._at
            self._at += -(-size_bytes // LINE) * LINE
            return torch.frombuffer(chunk, dtype=torch.uint8, count=size_bytes, offset=at)


WEIGHTS = Arena()


def buffer(size_bytes: int) -> Tensor:
    """buffer[size_bytes] uint8 in a mapping of its own, zero."""
    return Arena(0).take(size_bytes)


def mapping(size_bytes: int) -> mmap.mmap:
    """Pages that cost nothing until they are written; huge ones where the system has them."""
    pages = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def address(pages: mmap.mmap) -> int:
    """Where a mapping begins."""
    return torch.frombuffer(pages, dtype=torch.uint8).data_ptr()
