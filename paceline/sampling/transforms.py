"""Single truncations of a law: each maps weights to the indices it keeps.

`weights[M]` are float64 probabilities of M candidate ids in ascending order of id; the result is
the ascending int64 index of those that stay. So "the lower id" is "the lower index", and the
truncations chain. None of them depends on an order of summation.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

TERM_UNITS = 2.0**56
"""Fixed-point units of a term of an entropy, which is at most log of the vocabulary."""
UNITS = 2.0**62
"""Fixed-point units of a probability of 1: sums over any vocabulary stay below 2**63."""


def keep_min_p(weights: Tensor, min_p: float) -> Tensor:
    """Keep the ids at least `min_p` times as likely as the likeliest (arXiv 2407.01082)."""
    return torch.nonzero(weights >= min_p * weights.max()).squeeze(1)


def keep_top_k(weights: Tensor, k: int) -> Tensor:
    """Keep exactly the `k` likeliest ids; among equals the lower id stays.

    vLLM keeps every id that equals the k-th; then top_k = 1 would not be greedy.
    """
    cut = weights.kthvalue(len(weights) - k + 1).values
    equal = torch.nonzero(weights == cut).squeeze(1)
    keep = weights > cut
    keep[equal[: k - int(keep.sum())]] = True
    return torch.nonzero(keep).squeeze(1)


def keep_top_p(weights: Tensor, top_p: float) -> Tensor:
    """Keep the smallest head of at least `top_p` of the mass (arXiv 1904.09751).

    The head runs by descending probability, then id. Sums are exact: integers in units of 2**-62.
    """
    units = to_units(weights)
    total = int(units.sum())
    wanted = math.ceil(Fraction(top_p) * total)
    head = likeliest(units, wanted, floor=(total - wanted) // len(units))
    order = head[torch.sort(weights[head], descending=True, stable=True).indices]
    reached = units[order].cumsum(0) >= wanted
    return order[: int(reached.int().argmax()) + 1].sort().values


def keep_typical(weights: Tensor, typical_p: float) -> Tensor:
    """Keep the smallest set of at least `typical_p` of the mass, surprises near the mean first.

    Locally typical sampling (arXiv 2202.00666): ids by |-log p - entropy|, then id.
    """
    units = to_units(weights)
    total = int(units.sum())
    surprise = -torch.log(weights * (UNITS / total))
    parts = (weights * surprise).nan_to_num(0.0)  # 0 · inf of what has no mass
    entropy = int((parts * TERM_UNITS).round().to(torch.int64).sum()) / TERM_UNITS * UNITS / total
    order = torch.sort((surprise - entropy).abs(), stable=True).indices
    reached = units[order].cumsum(0) >= math.ceil(Fraction(typical_p) * total)
    return order[: int(reached.int().argmax()) + 1].sort().values


def likeliest(units: Tensor, wanted: int, floor: int) -> Tensor:
    """Ids of more units than a floor, doubled while they hold `wanted` units: what is to be sorted.

    It saves the sort of a vocabulary; any `floor` to begin with gives the same head.
    """
    ids, floor = torch.arange(len(units), device=units.device), max(floor, 1)
    while int(units[above := ids[units[ids] > floor]].sum()) >= wanted:
        ids, floor = above, 2 * floor
    return ids


def normalise(weights: Tensor) -> Tensor:
    """Divide by the sum, taken in fixed point."""
    return weights / (int(to_units(weights).sum()) / UNITS)


def to_units(weights: Tensor) -> Tensor:
    """Round to whole units of 2**-62, as int64."""
    return (weights * UNITS).round().to(torch.int64)
