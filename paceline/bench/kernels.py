"""What the native products sustain: one large weight, by format and rows, beside its limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from paceline.kernels.packed import pack, source_bytes
from paceline.kernels.probe import Limits, fastest
from paceline.plan.roofline import Machine, Weights, pass_time_s

IN_FEATURES = 1536
OUT_FEATURES = 49152
"""A weight of 75 million numbers: no cache holds it."""


@dataclass(frozen=True, kw_only=True)
class ProductCost:
    """One product x[rows, I] · weightᵀ."""

    weight_format: str
    rows: int
    ms: float
    gb_per_s: float
    """Weight bytes over time."""
    percent_of_stream: float
    """`gb_per_s` over what memory gives."""
    limit_ms: float
    """The longer of bytes / bandwidth and operations / peak."""

    def as_record(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return asdict(self)


def measure_products(
    weight_format: str, rows: Sequence[int], limits: Limits
) -> Iterator[ProductCost]:
    """Time one format for each number of rows.

    Raises:
        ConfigError: the native library was not built.
        UnsupportedModelError: there is no kernel for the format.
    """
    shape = weight_format, OUT_FEATURES, IN_FEATURES
    weight = pack(*shape, np.zeros(source_bytes(*shape), np.uint8))
    machine = Machine(bytes_per_s=limits.bytes_per_s, flops_per_s=limits.ops_per_s)
    sizes = Weights(weight_bytes=len(weight.data), params=OUT_FEATURES * IN_FEATURES)
    for count in rows:
        x = torch.ones(count, IN_FEATURES)
        seconds = fastest(partial(weight.linear, x))
        bytes_per_s = len(weight.data) / seconds
        yield ProductCost(
            weight_format=weight_format,
            rows=count,
            ms=1e3 * seconds,
            gb_per_s=bytes_per_s / 1e9,
            percent_of_stream=100 * bytes_per_s / limits.bytes_per_s,
            limit_ms=1e3 * pass_time_s(machine, sizes, count),
        )
