"""What the machine sustains, by the kernels' own loops: the limits beside each figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from paceline.kernels.arena import buffer
from paceline.kernels.library import library

READ_BYTES = 1 << 28
"""More than any cache near the cores holds."""
ROUNDS = 1 << 20
TURNS = 15


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What all threads together sustain on the path in force."""

    bytes_per_s: float
    """Reading memory."""
    ops_per_s: float
    """int8 multiplications and additions of the inner loop."""


def measure_limits() -> Limits:
    """Read memory and multiply for about a second; raises ConfigError without the library."""
    return times_beside_limits(())[1]


def times_beside_limits(
    works: Sequence[Callable[[], object]], turns: int = TURNS
) -> tuple[list[list[float]], Limits]:
    """Seconds by work and turn, and what the machine sustained in the same turns, by the median.

    Raises:
        ConfigError: the native library was not built.
    """
    lib, memory = library(), buffer(READ_BYTES)
    memory.fill_(1)  # pages of its own, not one shared page of zeros
    reads, products, *found = times_of_each(
        [
            lambda: lib.pl_read_all(memory.data_ptr(), READ_BYTES),
            lambda: lib.pl_multiply(ROUNDS),
            *works,
        ],
        turns,
    )
    limits = Limits(
        bytes_per_s=READ_BYTES / median(reads),
        ops_per_s=2 * lib.pl_multiply(1) * ROUNDS / median(products),
    )
    return found, limits


def times_of_each(works: Sequence[Callable[[], object]], turns: int) -> list[list[float]]:
    """Seconds by work and turn, taken in turns: a busy spell slows all works alike.

    Each time follows an untimed one, as what another work left in the caches is not its own.
    """
    found: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for work, seconds in zip(works, found, strict=True):
            work()
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return found
