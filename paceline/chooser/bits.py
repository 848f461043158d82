"""Counter-based random bits: pure functions of integers, scalar and elementwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): 64 bits to 64 bits, a bijection."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def hash_key(*parts: int, state: int = 0) -> int:
    """Hash a tuple of integers to 64 bits; `state` is the hash of the parts before them."""
    for part in parts:
        state = mix((state + GOLDEN + mix((part + GOLDEN) & MASK)) & MASK)
    return state


def uniform(bits: int) -> float:
    """A number in (0, 1), the midpoint of one of 2**52 cells; it leaves the low 12 bits unused.

    52 and not 53: a midpoint among 2**53 cells does not fit a float64 and may round to 1.
    """
    return ((bits >> 12) + 0.5) * 2.0**-52


def mix_array(state: Bits) -> Bits:
    """`mix`, elementwise."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def streams(states: Bits, count: int) -> Bits:
    """SplitMix64's first `count` outputs[M, count] from each of states[M]."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mix_array(states[:, None] + steps)


def exponentials(bits: Bits) -> NDArray[np.float64]:
    """Standard exponential numbers -log u, elementwise, u being `uniform`."""
    numbers: NDArray[np.float64] = (bits >> np.uint64(12)).astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-52
    return np.negative(np.log(numbers, out=numbers), out=numbers)
