"""G-tests: exact under the law, and as strong as they say."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.certify import gtest
from paceline.certify.gtest import (
    chi2_quantile,
    detectable_tv,
    g_statistic,
    g_test,
    noncentral_chi2_cdf,
    pool,
)

ALPHA = 1e-3


@pytest.mark.parametrize(
    ("level", "freedom", "table"), [(0.95, 1, 3.8415), (0.9999, 8, 31.828), (0.9999, 26, 61.657)]
)
def test_quantiles_are_those_of_the_tables(level, freedom, table):
    assert chi2_quantile(level, freedom) == pytest.approx(table, abs=1e-3)


@pytest.mark.parametrize(("freedom", "noncentrality"), [(3, 5.0), (40, 30.0)])
def test_noncentral_law_is_that_of_its_draws(freedom, noncentrality):
    """20,000 draws: 4 sigma of a share are at most 0.014."""
    draws = np.random.default_rng(1).noncentral_chisquare(freedom, noncentrality, 20_000)
    for x in np.quantile(draws, [0.1, 0.5, 0.9]):
        share = (draws <= x).mean()
        assert noncentral_chi2_cdf(x, freedom, noncentrality) == pytest.approx(share, abs=0.014)


def test_p_values_are_exact_for_a_law_that_chi_square_does_not_fit(monkeypatch):
    """400 tests of 30 counts at the 10 % level: 4 sigma are 0.06."""
    monkeypatch.setattr(gtest, "DRAWS", 499)
    law = np.array([0.7, 0.2, 0.05, 0.03, 0.02])
    samples = np.random.default_rng(2).multinomial(30, law, size=400).astype(float)
    alarms = np.mean([g_test("", counts, law).p_value <= 0.1 for counts in samples])
    assert 0.03 < alarms <= 0.16


@pytest.mark.parametrize("cells", [4, 64])
@pytest.mark.parametrize("samples", [2_000, 20_000])
def test_the_stated_variation_is_found_with_the_stated_power(cells, samples):
    """The worst deviation of that size, each p(v) raised or lowered in the same proportion.

    4,000 simulated tests: 4 sigma of a power of 0.9 are 0.019.
    """
    variation = detectable_tv(samples, cells, ALPHA)
    law = np.full(cells, 1 / cells)
    off = law * np.where(np.arange(cells) % 2, 1 + 2 * variation, 1 - 2 * variation)
    assert abs(off - law).sum() / 2 == pytest.approx(variation)
    counts = np.random.default_rng(cells).multinomial(samples, off, size=4_000)
    found = (g_statistic(counts, law) > chi2_quantile(1 - ALPHA, cells - 1)).mean()
    assert found == pytest.approx(0.9, abs=0.025)


def test_twice_as_many_samples_find_less():
    assert detectable_tv(2_000, 4, ALPHA) == pytest.approx(
        detectable_tv(1_000, 4, ALPHA) / np.sqrt(2)
    )
    assert detectable_tv(1_000, 1, ALPHA) == 1


@pytest.mark.parametrize(
    ("expected", "groups"),
    [
        ([9, 8, 7], [0, 1, 2]),
        ([3, 9, 3, 8], [2, 0, 2, 1]),
        ([9, 1, 8], [0, 1, 1]),
        ([1, 2], [0, 0]),
    ],
)
def test_rare_cells_are_tested_as_one(expected, groups):
    assert pool(np.array(expected, dtype=float)).tolist() == groups


def test_statistic_by_hand():
    counts, law = np.array([6.0, 0.0, 4.0]), np.array([0.5, 0.1, 0.4])
    assert g_statistic(counts, law) == pytest.approx(2 * 6 * np.log(6 / 5))
    assert g_test("", np.array([100.0]), np.array([1.0])).p_value == 1
