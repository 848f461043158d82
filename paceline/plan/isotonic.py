"""The nearest rising sequence: pool adjacent violators (Barlow et al. 1972)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def isotonic(values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The non-decreasing sequence of least weighted squared distance to values[N].

    (1, 3, 2, 4) gives (1, 2.5, 2.5, 4): the two that fall become their mean.
    """
    blocks: list[list[float]] = []
    for value, weight in zip(values, weights or [1.0] * len(values), strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            upper, lower = blocks.pop(), blocks.pop()
            pooled = lower[1] + upper[1]
            mean = (lower[0] * lower[1] + upper[0] * upper[1]) / pooled
            blocks.append([mean, pooled, lower[2] + upper[2]])
    return [value for value, _, count in blocks for _ in range(int(count))]


def interpolate(x: float, knots: Sequence[float], values: Sequence[float]) -> float:
    """Piecewise-linear through (knots, values), level outside; knots rise.

    At 2.5 through (2, 10) and (3, 20): 15.
    """
    right = bisect_right(knots, x)
    if right == 0:
        return values[0]
    if right == len(knots):
        return values[-1]
    left = right - 1
    share = (x - knots[left]) / (knots[right] - knots[left])
    return values[left] + share * (values[right] - values[left])
