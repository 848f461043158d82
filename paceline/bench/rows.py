"""What a whole pass costs by its rows: the curve that speculation lives on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from paceline.kernels.batch import Batch, KVTensors, PassOutput, Segment
from paceline.kernels.ops import Linear, Program
from paceline.kernels.probe import Limits, times_beside_limits
from paceline.plan.roofline import Machine, Weights, pass_time_s

Forward = Callable[[Batch, KVTensors], PassOutput]


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """One verification pass of one request."""

    rows: int
    ms: float
    """The median of all turns."""
    quartiles_ms: tuple[float, float]
    """The middle half of the turns lies between these."""
    gb_per_s: float
    """Weight bytes over time."""
    limit_ms: float
    """The longer of bytes / bandwidth and operations / peak, the keys and values included."""

    def as_record(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return asdict(self)


def measure_passes(
    forward: Forward, kv: KVTensors, sizes: Weights, rows: Sequence[int], turns: int
) -> tuple[list[PassCost], Limits]:
    """Time passes of so many rows over a context that fills the rest of `kv`'s slots.

    The machine's limits are measured in the same turns: on a shared one they wander.

    Args:
        forward: runs a pass.
        kv: keys and values, [L, S, G, D] each, with S greater than any of `rows`.
        sizes: what one pass reads and multiplies.
        rows: the numbers of rows, all with logits.
        turns: passes of each.
    """
    context = kv.keys.shape[1] - max(rows)
    if context:
        forward(chain(0, context, logit_rows=1), kv)
    works = [partial(forward, chain(context, count, logit_rows=count), kv) for count in rows]
    found, limits = times_beside_limits(works, turns)
    slot_bytes = 2 * kv.keys[:, 0].numel() * kv.keys.element_size()
    kv_bytes = [slot_bytes * (context + count) for count in rows]
    costs = map(partial(pass_cost, sizes, limits), rows, kv_bytes, found)
    return list(costs), limits


def pass_cost(
    sizes: Weights, limits: Limits, rows: int, kv_bytes: float, seconds: Sequence[float]
) -> PassCost:
    """The passes' times beside what the machine would take."""
    machine = Machine(bytes_per_s=limits.bytes_per_s, flops_per_s=limits.ops_per_s)
    low, middle, high = quartiles(seconds)
    return PassCost(
        rows=rows,
        ms=1e3 * middle,
        quartiles_ms=(1e3 * low, 1e3 * high),
        gb_per_s=sizes.weight_bytes / middle / 1e9,
        limit_ms=1e3 * pass_time_s(machine, sizes, rows, kv_bytes=kv_bytes),
    )


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """A quarter, half and three quarters of the values lie below."""
    low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
    return low, middle, high


def weights_read(program: Program) -> Weights:
    """What a pass reads and multiplies: every product's matrix, not the embedding's other rows."""
    matrices = [op.weight for op in program.ops if isinstance(op, Linear)]
    return Weights(
        weight_bytes=sum(matrix.nbytes for matrix in matrices),
        params=sum(math.prod(matrix.shape) for matrix in matrices),
    )


def chain(context: int, rows: int, logit_rows: int) -> Batch:
    """Rows that follow one another after a context, all of token 0; logits for the last ones."""
    return Batch(
        ids=np.zeros(rows, dtype=np.int64),
        positions=np.arange(context, context + rows),
        slots=np.arange(context, context + rows),
        segments=(Segment(0, np.arange(context), tuple(range(-1, rows - 1))),),
        logit_rows=np.arange(rows - logit_rows, rows),
    )
