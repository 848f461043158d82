"""One process at a time: an advisory lock on a file, freed by the system when its holder dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        """Wait for the first byte; the runtime gives up after ten seconds, so ask again."""
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError:
                continue
            return

else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        """Wait for the whole file."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock on `path` while the body runs; wait for another holder, thread or process.

    The file stays: to remove it would let two holders lock two files of one name.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _acquire(descriptor)
        yield
    finally:
        os.close(descriptor)
