"""What the machine sustains, by the kernels' own loops: the limits beside each figure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.kernels.library import library
from paceline.kernels.packed import buffer

READ_BYTES = 1 << 28
"""More than any cache near the cores holds."""
ROUNDS = 1 << 20
REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What all threads together sustain on the path in force."""

    bytes_per_s: float
    """Reading memory."""
    ops_per_s: float
    """int8 multiplications and additions of the inner loop."""


def measure_limits() -> Limits:
    """Read memory and multiply for about a second; raises ConfigError without the library."""
    lib, memory = library(), buffer(READ_BYTES)
    memory.fill_(1)  # pages of its own, not one shared page of zeros
    read_s = fastest(lambda: lib.pl_read_all(memory.data_ptr(), READ_BYTES))
    multiply_s = fastest(lambda: lib.pl_multiply(ROUNDS))
    return Limits(
        bytes_per_s=READ_BYTES / read_s, ops_per_s=2 * lib.pl_multiply(1) * ROUNDS / multiply_s
    )


def fastest(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    return fastest_of_each([work], repeats)[0]


def fastest_of_each(works: Sequence[Callable[[], object]], repeats: int = REPEATS) -> list[float]:
    """Seconds of each work's fastest run; they take turns, so that a busy spell slows all alike."""
    found = [math.inf] * len(works)
    for work in works:
        work()
    for _ in range(repeats):
        for index, work in enumerate(works):
            start = time.perf_counter()
            work()
            found[index] = min(found[index], time.perf_counter() - start)
    return found
