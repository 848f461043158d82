"""What the native products sustain: one large weight, by format and rows, beside its limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import torch

from paceline.kernels.packed import PackedWeight, pack, source_bytes
from paceline.kernels.probe import Limits, times_beside_limits
from paceline.plan.roofline import Machine, Weights, pass_time_s

IN_FEATURES = 1536
OUT_FEATURES = 49152
"""A weight of 75 million numbers."""


@dataclass(frozen=True, kw_only=True)
class ProductCost:
    """One product x[rows, I] · weightᵀ."""

    weight_format: str
    out_features: int
    in_features: int
    rows: int
    ms: float
    """The median of all turns."""
    gb_per_s: float
    """Weight bytes over time."""
    gops: float
    """Multiplications and additions over time."""
    percent_of_stream: float
    """`gb_per_s` over what memory gives."""
    limit_ms: float
    """The longer of bytes / bandwidth and operations / peak."""

    def as_record(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return asdict(self)


def measure_products(
    weights: Sequence[PackedWeight], rows: Sequence[int]
) -> tuple[list[ProductCost], Limits]:
    """Time each weight for each number of rows, and the machine's limits in the same turns."""
    sizes = list(product(weights, rows))
    works = [partial(each.linear, torch.ones(count, each.in_features)) for each, count in sizes]
    found, limits = times_beside_limits(works)
    costs = [
        product_cost(weight, count, median(seconds), limits)
        for (weight, count), seconds in zip(sizes, found, strict=True)
    ]
    return costs, limits


def product_cost(weight: PackedWeight, rows: int, seconds: float, limits: Limits) -> ProductCost:
    """The measurement beside what the machine would take."""
    machine = Machine(bytes_per_s=limits.bytes_per_s, flops_per_s=limits.ops_per_s)
    sizes = Weights(weight_bytes=weight.nbytes, params=math.prod(weight.shape))
    bytes_per_s = weight.nbytes / seconds
    return ProductCost(
        weight_format=weight.format,
        out_features=weight.out_features,
        in_features=weight.in_features,
        rows=rows,
        ms=1e3 * seconds,
        gb_per_s=bytes_per_s / 1e9,
        gops=2 * sizes.params * rows / seconds / 1e9,
        percent_of_stream=100 * bytes_per_s / limits.bytes_per_s,
        limit_ms=1e3 * pass_time_s(machine, sizes, rows),
    )


def blank_weight(weight_format: str) -> PackedWeight:
    """A weight that no cache holds; all zeros, which takes as long as any other.

    Raises:
        ConfigError: the native library was not built.
        UnsupportedModelError: there is no kernel for the format.
    """
    shape = weight_format, OUT_FEATURES, IN_FEATURES
    return pack(*shape, np.zeros(source_bytes(*shape), np.uint8))


def largest_of_each_format(weights: Iterable[object]) -> list[PackedWeight]:
    """Of each format the packed weight with the most bytes, formats by name."""
    found: dict[str, PackedWeight] = {}
    for weight in weights:
        if isinstance(weight, PackedWeight):
            known = found.get(weight.format)
            if known is None or weight.nbytes > known.nbytes:
                found[weight.format] = weight
    return [found[name] for name in sorted(found)]
