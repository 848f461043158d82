"""G-tests of counts against a known law: exact p-values, and what they can see.

The p-value is that of a Monte Carlo test (Barnard 1963): the rank of the statistic among those of
samples drawn from the law itself. So its false-alarm rate holds for any law and any sample size;
the chi-square approximation serves only to say beforehand what a test will find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from paceline.chooser.race import Floats

DRAWS = 19_999
"""Samples of the law a statistic is ranked among; the smallest p-value is 1 / 20,000."""
MIN_EXPECTED = 5.0
"""Cells that expect fewer counts are tested as one."""


@dataclass(frozen=True, kw_only=True)
class GTest:
    """One test."""

    what: str
    cells: int
    """Cells after pooling; the test has one degree of freedom less."""
    statistic: float
    p_value: float


def g_test(what: str, counts: Floats, law: Floats) -> GTest:
    """Test counts[C] against law[C], all of it positive."""
    n = counts.sum()
    groups = pool(law * n)
    pooled_law = gather(groups, law)
    pooled_law /= pooled_law.sum()  # its own sum, in its own order: a single cell has all of it
    found = float(g_statistic(gather(groups, counts), pooled_law))
    draws = np.random.default_rng(len(law)).multinomial(int(n), pooled_law, size=DRAWS)
    return ranked(what, len(pooled_law), found, g_statistic(draws, pooled_law))


def two_sample_g_test(what: str, a: Floats, b: Floats) -> GTest:
    """Test whether one law, whatever it is, explains counts a[C] and b[C].

    Given what both saw together, the first sample is a draw from it without replacement: so its
    p-values are exact, too (Fisher's exact test, by Monte Carlo).
    """
    share = a.sum() / (a + b).sum()
    groups = pool((a + b) * min(share, 1 - share))
    found_a, found_b = gather(groups, a), gather(groups, b)
    seen = found_a + found_b
    law = seen / seen.sum()
    found = float(g_statistic(found_a, law) + g_statistic(found_b, law))
    draws = np.random.default_rng(len(seen)).multivariate_hypergeometric(
        seen.astype(np.int64), int(a.sum()), size=DRAWS
    )
    statistics = g_statistic(draws, law) + g_statistic(seen - draws, law)
    return ranked(what, len(seen), found, statistics)


def ranked(what: str, cells: int, found: float, drawn: Floats) -> GTest:
    """The test whose p-value is the rank of a statistic among drawn[DRAWS]."""
    # Sums of equal terms in another order may differ in the last bits; those are ties.
    as_far = int((drawn >= found * (1 - 1e-12)).sum())
    p_value = (1 + as_far) / (1 + len(drawn))
    return GTest(what=what, cells=cells, statistic=found, p_value=p_value)


def all_hold(tests: Sequence[GTest], rate: float) -> bool:
    """Whether no test fails, each at its share of the rate."""
    return all(test.p_value > rate / len(tests) for test in tests)


def gather(groups: NDArray[np.int64], weights: Floats) -> Floats:
    """The weight of each group."""
    return np.bincount(groups, weights).astype(np.float64)


def g_statistic(counts: Floats | NDArray[np.int64], law: Floats) -> Floats:
    """2 sum O log(O / E) over the last axis of counts[..., C]."""
    expected = counts.sum(-1, keepdims=True) * law
    ratio = np.divide(counts, expected, out=np.ones(expected.shape), where=counts > 0)
    total: Floats = 2 * (counts * np.log(ratio)).sum(-1)
    return total


def pool(expected: Floats) -> NDArray[np.int64]:
    """The group[C] of each cell: one of its own, or the one of all that expect too little."""
    order = np.argsort(-expected, kind="stable")
    enough = int((expected >= MIN_EXPECTED).sum())
    rest = expected[order[enough:]].sum()
    if 0 < rest < MIN_EXPECTED:  # then they join the least of the others
        enough -= 1
    groups = np.empty(len(expected), dtype=np.int64)
    groups[order] = np.minimum(np.arange(len(expected)), max(enough, 0))
    return groups


def detectable_tv(samples: int, cells: int, alpha: float, power: float = 0.9) -> float:
    """The smallest total variation from the law that the test finds with that power.

    Whatever the deviation d of the law p, sum d^2 / p >= (sum |d|)^2 = 4 TV^2 (Cauchy-Schwarz), so
    the statistic is noncentral chi-square with at least 4 n TV^2.
    """
    if cells < 2:
        return 1.0
    critical = chi2_quantile(1 - alpha, cells - 1)
    low, high = 0.0, 4.0 * critical + 100
    for _ in range(60):
        middle = (low + high) / 2
        missed = noncentral_chi2_cdf(critical, cells - 1, middle)
        low, high = (low, middle) if 1 - missed >= power else (middle, high)
    return min(1.0, math.sqrt(high / (4 * samples)))


def chi2_quantile(level: float, freedom: int) -> float:
    """Where the cumulative chi-square reaches `level`."""
    low, high = 0.0, 10.0 * freedom + 200
    for _ in range(60):
        middle = (low + high) / 2
        below = noncentral_chi2_cdf(middle, freedom, 0.0) < level
        low, high = (middle, high) if below else (low, middle)
    return high


def noncentral_chi2_cdf(x: float, freedom: int, noncentrality: float) -> float:
    """P(X <= x): chi-squares with freedom + 2 j, mixed by Poisson(noncentrality / 2) in j."""
    mean = noncentrality / 2
    last = int(mean + 10 * math.sqrt(mean) + 20) if mean else 0
    j = torch.arange(last + 1, dtype=torch.float64)
    weights = torch.exp(torch.special.xlogy(j, mean) - mean - torch.lgamma(j + 1))
    below = torch.special.gammainc(freedom / 2 + j, torch.full_like(j, x / 2))
    return float((weights * below).sum())
