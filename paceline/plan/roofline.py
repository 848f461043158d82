"""The roofline of a pass: one scan of the weights carries many rows (Williams et al. 2009).

A pass over M rows reads every weight once and does two operations a weight and row, so it takes the
longer of the two, and then reads each request's keys and values. While the bytes are the longer
one, further rows are free: that is what speculation lives on. Prefill and training are past that
point already.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a machine sustains."""

    bytes_per_s: float
    """Memory bandwidth."""
    flops_per_s: float
    """Multiplications and additions."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What a pass reads and multiplies."""

    weight_bytes: float
    params: float


def pass_time_s(machine: Machine, weights: Weights, rows: int, kv_bytes: float = 0.0) -> float:
    """Seconds of a pass: max(W / BW, 2 params M / FLOPS) + kv_bytes / BW.

    7e9 parameters in 16 bits at 1.4 TB/s and 280 TFLOPS: 10 ms for 1 row and for 5; 25.6 ms for 512
    rows, where arithmetic is the longer.
    """
    scan_s = weights.weight_bytes / machine.bytes_per_s
    arithmetic_s = 2 * weights.params * rows / machine.flops_per_s
    return max(scan_s, arithmetic_s) + kv_bytes / machine.bytes_per_s


def flat_rows(machine: Machine, weights: Weights) -> float:
    """M*: the rows up to which a pass costs what one row does, FLOPS W / (2 params BW).

    200 rows in the example above: batch b with k drafts is free while b (k + 1) <= 200.
    """
    return machine.flops_per_s * weights.weight_bytes / (2 * weights.params * machine.bytes_per_s)
