"""Every figure of docs/cost-model.md is what the functions of plan/ return."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from paceline.plan import belief, controller, probing
from paceline.plan.acceptance import acceptance_rate, residual, total_variation
from paceline.plan.beta import Beta
from paceline.plan.costs import FREE, CostCurve
from paceline.plan.devices import SUSTAINED_BYTES, SUSTAINED_FLOPS, device
from paceline.plan.lengths import Costs, break_even_alpha_at
from paceline.plan.roofline import Weights, flat_rows, pass_time_s
from paceline.plan.throughput import (
    best_k,
    break_even_alpha,
    expected_tokens,
    expected_tokens_conditional,
    operations_growth,
    speedup,
)
from paceline.plan.trees import best_tree, by_rank

PAGE = (Path(__file__).resolve().parents[2] / "docs/cost-model.md").read_text()
C = 1 / 30
H100 = device("h100").machine
TARGET = Weights(weight_bytes=60e9, params=30e9)
NEVER_FLAT = Costs(target=CostCurve((1, 5), (1.0, 3.4)), draft=FREE)


def ms(rows: int) -> float:
    return 1e3 * pass_time_s(H100, TARGET, rows)


def best(alpha: float) -> str:
    k = best_k(alpha, C)
    return f"α = {alpha:g}: k = {k}, {speedup(alpha, k, C):.4g}"


POSTERIOR = Beta.of(3, 4).interval(0.9)
P, Q = (0.2, 0.3, 0.35, 0.15), (0.35, 0.25, 0.25, 0.15)
BIASED = min(1, 0.5 / 0.6)

FIGURES = {
    "the machine": f"{H100.bytes_per_s / 1e12:.2f} TB/s and {H100.flops_per_s / 1e12:.0f} TFLOPS"
    f" sustained, {SUSTAINED_BYTES} and {SUSTAINED_FLOPS} of the data sheet",
    "passes": f"takes {ms(1):.1f} ms for 1 row, {ms(5):.1f} ms for 5 rows and {ms(512):.1f} ms for"
    f" 512; M\\* = {flat_rows(H100, TARGET):.0f} rows",
    "expected tokens": f"E(0.65, 4) = {expected_tokens(0.65, 4):.2f} tokens per pass",
    "bounds": f"{1 / (1 - 0.55):.2f} for α = 0.55, {1 / (1 - 0.8):.0f} for 0.8",
    "means": f"product law says {expected_tokens(0.5, 3):.3f} tokens",
    "conditional": f"the truth is {expected_tokens_conditional((0.5, 1, 1)):.1f}",
    "tree": f"commits {best_tree(by_rank(((0.6, 0.3),) * 4), 4).expected_tokens:.3f} tokens, a"
    f" chain of four {expected_tokens(0.6, 4):.3f}",
    "break-even": "Break-even α at c = 1/30: "
    + ", ".join(f"{break_even_alpha(k, C):.4f} (k = {k})" for k in (1, 2, 4, 8)),
    "the root": f"E(α, 4) = {1 + 4 * C:.4f} has the root α = {break_even_alpha(4, C):.4f}",
    "what .65 is worth": f"commits {expected_tokens(0.65, 4):.2f} tokens and is worth"
    f" {speedup(0.65, 4, C):.2f} plain ones",
    "passes that are not flat": f"is not {break_even_alpha(4, C):.4f} but"
    f" {break_even_alpha_at(1, 4, NEVER_FLAT):.3f}",
    "best k": best(0.55) + " times plain speed; " + "; ".join(map(best, (0.8, 0.9, 0.99))),
    "the flat optimum": f"*k* = 3 gives {speedup(0.55, 3, C):.3f} and *k* = 5 gives"
    f" {speedup(0.55, 5, C):.3f}",
    "few samples": f"between {POSTERIOR.low:.3f} and {POSTERIOR.high:.3f}",
    "memory": f"memories of some {belief.REQUEST_MEMORY:.0f} passes",
    "gaps": f"after {probing.FIRST_GAP} passes, then {2 * probing.FIRST_GAP},"
    f" {4 * probing.FIRST_GAP} and at most {probing.LAST_GAP}",
    "purse": f"less than {probing.ALLOWANCE_PASSES:.0f} plain passes + {100 * probing.SHARE:.1f} %",
    "hysteresis": f"a promise of {1 + controller.RETURN_MARGIN:.2f}",
    "overlap": f"accepted {acceptance_rate(P, Q):.2f}, rejected {total_variation(P, Q):.2f}",
    "alpha .55": f"{expected_tokens(0.55, 4):.3f} tokens for {1 + 4 * C:.3f} passes,"
    f" {speedup(0.55, 4, C):.3f} times",
    "the tenth token": f"0.55¹⁰ = {0.55**10:.4f} and cost {C:.3f}",
    "optima": f"({best_k(0.8, C)}, {best_k(0.9, C)}, {best_k(0.99, C)} for 0.8, 0.9, 0.99)",
    "bytes a token": f"reads {TARGET.weight_bytes / 1e9:.0f} GB for one token; a pass that commits"
    f" 2.53 reads {60 / expected_tokens(0.65, 4):.1f} GB for each",
    "training": f"reads {60 / 2048:.3f} GB per token and is bound by arithmetic: {ms(2048):.0f} ms"
    f" of it where the scan takes {ms(1):.1f}",
    "operations": f"does {operations_growth(0.8, 4, C):.2f} times the operations",
    "a greedy draft": f"min(1, p/q) = {BIASED:.3f}",
    "its law": f"emits ({BIASED:.3f}, {1 - BIASED:.3f}) instead of (0.5, 0.5): a total variation of"
    f" {total_variation((BIASED, 1 - BIASED), (0.5, 0.5)):.3f}",
}


@pytest.mark.parametrize("figure", FIGURES)
def test_the_page_prints_what_is_computed(figure):
    assert FIGURES[figure] in PAGE


def test_the_residual_of_the_first_question():
    assert residual(P, Q) == pytest.approx([0, 1 / 3, 2 / 3, 0])
    assert Q[1] + total_variation(P, Q) * residual(P, Q)[1] == pytest.approx(P[1])


def test_a_point_mass_gives_the_law_back():
    """Accept the proposed first token with p = .5, else draw from p without it."""
    assert [0.5, (1 - 0.5) * 1.0] == [0.5, 0.5]
    assert residual((0.5, 0.5), (1.0, 0.0)) == [0.0, 1.0]


def test_every_function_named_on_the_page_exists():
    named = re.findall(r"`([a-z_]+)\.([A-Za-z_]+)`", PAGE)
    assert len(named) >= 10
    for module, name in named:
        assert hasattr(importlib.import_module(f"paceline.plan.{module}"), name), (module, name)
