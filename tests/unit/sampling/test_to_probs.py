"""`to_probs`: values by hand, errors, and bits that do not depend on the company of a row."""

from __future__ import annotations

import math

import pytest
import torch

from paceline.errors import ModelError
from paceline.sampling import to_probs
from paceline.types import SamplingParams

HALVES = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625]).log()


def law(logits: torch.Tensor, **settings: float) -> list[float]:
    return to_probs(logits[None], [SamplingParams(**settings)])[0].tolist()


def test_temperature_one_is_softmax():
    assert law(HALVES) == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.0625], abs=1e-7)


def test_temperature_divides_the_logits():
    weights = [0.25, 0.0625, 0.015625, 0.00390625, 0.00390625]
    expected = [w / sum(weights) for w in weights]
    assert law(HALVES, temperature=0.5) == pytest.approx(expected, abs=1e-7)


def test_temperature_zero_is_the_lowest_of_the_highest():
    assert law(torch.tensor([1.0, 3.0, 2.0, 3.0]), temperature=0, top_k=3) == [0, 1, 0, 0]


def test_the_lowest_of_equals_in_a_row_that_threads_share():
    logits = torch.zeros(2, 151_936)
    logits[:, [70_001, 70_002, 140_000]] = 1
    laws = to_probs(logits, [SamplingParams(temperature=0)] * 2)
    assert laws.nonzero().tolist() == [[0, 70_001], [1, 70_001]]
    assert laws.sum() == 2


def test_a_tiny_temperature_shares_between_equals_and_does_not_overflow():
    logits = torch.tensor([3e38, -3e38, 3e38])
    assert law(logits, temperature=1e-300) == [0.5, 0, 0.5]


def test_top_k_keeps_exactly_k_and_the_lower_id_among_equals():
    assert law(torch.zeros(4), top_k=2) == [0.5, 0.5, 0, 0]
    expected = [0.5 / 0.9375, 0.25 / 0.9375, 0.125 / 0.9375, 0.0625 / 0.9375, 0]
    assert law(HALVES, top_k=4) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("top_k", [-1, 0, 4, 9])
def test_a_top_k_that_drops_nothing_changes_no_bit(top_k: int):
    logits = torch.randn(4, generator=torch.Generator().manual_seed(3))
    assert law(logits, top_k=top_k) == law(logits)


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, 1), (0.6, 2), (0.8, 3), (0.9, 4), (0.99, 5)])
def test_top_p_keeps_the_smallest_head_that_reaches_it(top_p: float, kept: int):
    probabilities = law(HALVES, top_p=top_p)
    assert [p > 0 for p in probabilities] == [True] * kept + [False] * (5 - kept)
    assert probabilities[0] == pytest.approx(0.5 / sum((0.5, 0.25, 0.125, 0.0625, 0.0625)[:kept]))


def test_top_p_reached_exactly_takes_no_further_id():
    """Four equal ids hold a quarter each, to the bit: a half is two of them, the lower ones."""
    assert law(torch.zeros(4), top_p=0.5) == [0.5, 0.5, 0, 0]
    assert law(torch.zeros(4), top_p=0.5 + 2**-52) == pytest.approx([1 / 3] * 3 + [0])


def test_a_top_p_below_every_probability_keeps_one():
    assert law(torch.zeros(3), top_p=1e-300) == [1, 0, 0]


def test_min_p_is_relative_to_the_likeliest():
    assert law(HALVES, min_p=0.2) == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0, 0], abs=1e-7)
    assert law(torch.zeros(2), min_p=1) == [0.5, 0.5]


def test_the_order_is_temperature_min_p_top_k_top_p():
    """Each pair of settings distinguishes the order: swapped, they keep another set."""
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    # min-p before top-p: .4 and .3 are left, and the .4 alone is 4/7 of them.
    assert law(logits, min_p=0.6, top_p=0.5) == [1, 0, 0, 0]
    # top-k before top-p: of three ids of .9 the first two hold 7/9 > .75; of four, only .7.
    assert [p > 0 for p in law(logits, top_k=3, top_p=0.75)] == [True, True, False, False]
    # temperature before min-p: at temperature 2 the last is a half of the first, not a quarter.
    assert [p > 0 for p in law(logits, temperature=2, min_p=0.45)] == [True] * 4


def test_minus_infinity_is_probability_zero():
    logits = torch.tensor([0.0, -math.inf, 0.0, -math.inf])
    for settings in ({}, {"top_k": 3}, {"top_p": 0.999}, {"min_p": 1e-9}):
        assert law(logits, **settings) == [0.5, 0, 0.5, 0]
    assert law(logits, temperature=0) == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ([0.0, math.nan, 1.0], "nan"),
        ([0.0, math.inf, 1.0], "inf"),
        ([-math.inf] * 3, "nothing but -inf"),
    ],
)
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_row_without_a_law_is_named(bad: list[float], found: str, temperature: float):
    logits = torch.zeros(4, 3)
    logits[2] = torch.tensor(bad)
    with pytest.raises(ModelError, match=rf"^Row 2 of the logits holds {found},"):
        to_probs(logits, [SamplingParams(temperature=temperature)] * 4)


def test_every_row_needs_its_settings():
    with pytest.raises(ValueError, match="2 rows of logits came with 1"):
        to_probs(torch.zeros(2, 3), [SamplingParams()])


def test_no_rows_give_no_laws():
    assert to_probs(torch.zeros(0, 5), []).shape == (0, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_law_is_float64_and_the_logits_stay_as_they_were(dtype: torch.dtype):
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1)).to(dtype)
    before = logits.clone()
    laws = to_probs(logits, [SamplingParams(temperature=0.7, top_p=0.9)] * 3)
    assert laws.dtype == torch.float64
    assert torch.equal(logits, before)


MANY = [
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.8),
    SamplingParams(temperature=1.3, top_k=40),
    SamplingParams(top_p=0.9),
    SamplingParams(min_p=0.02),
    SamplingParams(temperature=0.6, min_p=0.001, top_k=700, top_p=0.97),
]


@pytest.mark.parametrize("vocab", [1, 7, 1001, 4096, 151_936])
def test_a_row_has_the_same_bits_whatever_shares_the_call(vocab: int):
    """Alone, among others, in another place, with 1 or 2 threads, from a strided tensor."""
    generator = torch.Generator().manual_seed(vocab)
    rows = 12 if vocab < 100_000 else 6
    logits = 3 * torch.randn(rows, vocab, generator=generator)
    params = [MANY[row % len(MANY)] for row in range(rows)]
    together = to_probs(logits, params)
    for row in range(rows):
        assert torch.equal(to_probs(logits[row : row + 1], params[row : row + 1])[0], together[row])
    assert torch.equal(to_probs(logits.flip(0), params[::-1]).flip(0), together)
    assert torch.equal(to_probs(logits.t().contiguous().t(), params), together)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert torch.equal(to_probs(logits, params), together)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("settings", MANY)
def test_a_law_sums_to_one(settings: SamplingParams):
    logits = 4 * torch.randn(3, 151_936, generator=torch.Generator().manual_seed(9))
    for row in to_probs(logits, [settings] * 3):
        assert math.fsum(row.tolist()) == pytest.approx(1, abs=1e-12)
