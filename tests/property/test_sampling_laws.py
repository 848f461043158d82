"""`to_probs` against the definitions, spelled out with full sorts and Python integers."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.sampling import to_probs
from paceline.sampling.transforms import keep_min_p, keep_top_k, keep_top_p
from paceline.types import SamplingParams

# Few distinct values: ties are the rule.
LOGITS = st.lists(
    st.one_of(st.sampled_from([-math.inf, 0.0, 0.5, 1.0]), st.floats(-60, 8, width=32)),
    min_size=1,
    max_size=40,
).filter(lambda logits: max(logits) > -math.inf)
TOP_P = st.one_of(st.floats(1e-6, 1), st.sampled_from([0.25, 0.5, 0.75, 1 - 2**-53]))


def by_probability(weights: list[float]) -> list[int]:
    return sorted(range(len(weights)), key=lambda i: (-weights[i], i))


def head_of(weights: list[float], top_p: float) -> list[int]:
    units = [round(w * 2.0**62) for w in weights]
    wanted, reached, head = math.ceil(Fraction(top_p) * sum(units)), 0, []
    for i in by_probability(weights):
        head.append(i)
        reached += units[i]
        if reached >= wanted:
            break
    return sorted(head)


@given(LOGITS, TOP_P)
@settings(max_examples=150, deadline=None)
def test_top_p_is_the_head_of_the_sorted_law(logits: list[float], top_p: float):
    weights = to_probs(torch.tensor([logits]), [SamplingParams()])[0]
    assert keep_top_p(weights, top_p).tolist() == head_of(weights.tolist(), top_p)


@given(LOGITS, st.data())
@settings(max_examples=80, deadline=None)
def test_top_k_is_the_head_of_the_sorted_law(logits: list[float], data: st.DataObject):
    k = data.draw(st.integers(1, len(logits)))
    weights = to_probs(torch.tensor([logits]), [SamplingParams()])[0]
    assert keep_top_k(weights, k).tolist() == sorted(by_probability(weights.tolist())[:k])


@given(
    LOGITS,
    st.floats(0.05, 4),
    st.sampled_from([0.0, 1e-9, 0.01, 0.3, 1.0]),
    st.integers(-1, 45),
    TOP_P,
)
@settings(max_examples=150, deadline=None)
def test_a_law_is_the_softened_law_cut_and_renormalised(
    logits: list[float], temperature: float, min_p: float, top_k: int, top_p: float
):
    logits_1V = torch.tensor([logits])
    params = SamplingParams(temperature=temperature, min_p=min_p, top_k=top_k, top_p=top_p)
    soft = to_probs(logits_1V, [SamplingParams(temperature=temperature)])[0].tolist()
    kept = [i for i, p in enumerate(soft) if p >= min_p * max(soft)]
    if top_k > 0:
        ranks = by_probability([soft[i] for i in kept])[:top_k]
        kept = [kept[i] for i in sorted(ranks)]
    if top_p < 1:
        kept = [kept[i] for i in head_of([soft[i] for i in kept], top_p)]
    total = math.fsum(soft[i] for i in kept)
    law = to_probs(logits_1V, [params])[0].tolist()
    for i, probability in enumerate(law):
        expected = soft[i] / total if i in kept else 0.0
        assert math.isclose(probability, expected, rel_tol=1e-12, abs_tol=1e-300)
    assert math.isclose(math.fsum(law), 1, abs_tol=1e-12)


def test_the_heads_of_a_large_law_with_heavy_ties():
    """Logits on a grid of eighths over 40,000 ids: hundreds to a step."""
    generator = torch.Generator().manual_seed(5)
    logits = (16 * torch.randn(1, 40_000, generator=generator)).round() / 8
    weights = to_probs(logits, [SamplingParams()])[0]
    order = by_probability(weights.tolist())
    for top_p in (0.5, 0.99, 1 - 1e-9):
        assert keep_top_p(weights, top_p).tolist() == head_of(weights.tolist(), top_p)
    for k in (1, 50, 36_000):
        assert keep_top_k(weights, k).tolist() == sorted(order[:k])
    floor = 0.1 * float(weights.max())
    kept = [i for i, w in enumerate(weights.tolist()) if w >= floor]
    assert keep_min_p(weights, 0.1).tolist() == kept
