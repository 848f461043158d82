"""A file mapped for reading, whose pages are given back as soon as they have been read."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ModelFileError

Bytes = NDArray[np.uint8]


class MappedFile:
    """Bytes of a file, without copying them into memory of our own; unmapped with the last view.

    Raises:
        ModelFileError: the file is missing, unreadable or empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelFileError(path, "file", f"cannot be read: {error}") from error
        self.size_bytes = len(self._map)

    def view(self, offset: int, size_bytes: int) -> Bytes:
        """A read-only view of bytes that the caller knows to be within the file."""
        return np.frombuffer(self._map, np.uint8, size_bytes, offset)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """A copy of bytes."""
        return self._map[offset : offset + size_bytes]

    def forget(self, offset: int, size_bytes: int) -> None:
        """Give back the pages of a range that will not be read again soon."""
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            first = offset // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, first, offset + size_bytes - first)
