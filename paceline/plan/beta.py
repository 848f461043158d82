"""Beta distributions and Student's t: what few samples say about a rate or a mean.

The regularised incomplete beta function is summed as its continued fraction (Abramowitz and Stegun
26.5.8, by Lentz's method), and quantiles are found by bisection: scipy would be a heavy dependency
for one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError


@dataclass(frozen=True)
class Interval:
    """A central estimate and the bounds around it, in one unit."""

    low: float
    middle: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Beta:
    """What is believed of a rate: a and b are successes and failures, the prior's included."""

    a: float
    b: float

    @classmethod
    def of(cls, accepted: float, tried: float, prior: float = 0.5) -> Beta:
        """The posterior after `accepted` of `tried`; the prior of 1/2 is Jeffreys'.

        Its credible intervals keep close to their level for few samples too (Brown, Cai, DasGupta
        2001). 3 of 4 gives Beta(3.5, 1.5): mean .7, 90 % between .349 and .954.
        """
        return cls(accepted + prior, tried - accepted + prior)

    @property
    def mean(self) -> float:
        """The expected rate."""
        return self.a / (self.a + self.b)

    def quantile(self, level: float) -> float:
        """The rate not exceeded with probability `level`, to within 1e-10."""
        return solve(lambda rate: incomplete_beta(self.a, self.b, rate), level, 0.0, 1.0)

    def interval(self, level: float = 0.9) -> Interval:
        """Mean, and bounds that leave (1 - level) / 2 outside on each side."""
        tail = (1 - level) / 2
        return Interval(self.quantile(tail), self.mean, self.quantile(1 - tail))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), the cumulative distribution of Beta(a, b); I_.5(2, 3) = .6875."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    return front * continued_fraction(a, b, x)


def continued_fraction(a: float, b: float, x: float) -> float:
    """The fraction of I_x(a, b); it converges fast for x below the mean."""
    c, d = 1.0, 1 / nonzero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / nonzero(1 + term * d)
            c = nonzero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return fraction


def nonzero(value: float) -> float:
    """The value, or a tiny one in place of 0."""
    return value or 1e-300


def student_quantile(level: float, freedom: int) -> float:
    """The t not exceeded with probability `level`, `freedom` degrees; (.95, 4) gives 2.132."""
    if level < 0.5:
        return -student_quantile(1 - level, freedom)

    def below(t: float) -> float:
        return 1 - incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2

    return solve(below, level, 0.0, 1e4)


def predictive_interval(values: Sequence[float], count: int, level: float = 0.9) -> Interval:
    """Where the mean of `count` further values will lie, from values[N] of one normal law.

    mean ± t s sqrt(1/N + 1/count) with N - 1 degrees of freedom: it holds the uncertainty of the
    estimate and the spread of what is still to come. (1, 2, 3) for one more at 90 %: 2 ± 3.372.

    Raises:
        ConfigError: fewer than 2 values, which say nothing of their spread.
    """
    if len(values) < 2:
        raise ConfigError(f"A spread needs 2 values or more, not {len(values)}; measure further.")
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    width = student_quantile((1 + level) / 2, len(values) - 1)
    width *= math.sqrt(variance * (1 / len(values) + 1 / count))
    return Interval(mean - width, mean, mean + width)


def solve(rising: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a rising function reaches the target, between low and high."""
    while high - low > 1e-10 * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2
