"""What a whole pass costs by its rows: the curve that speculation lives on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from paceline.kernels.batch import Batch, KVTensors, PassOutput, Segment
from paceline.kernels.ops import Linear, Program
from paceline.kernels.probe import Limits, fastest_of_each
from paceline.plan.roofline import Machine, Weights, pass_time_s

Forward = Callable[[Batch, KVTensors], PassOutput]


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """One verification pass of one request."""

    rows: int
    ms: float
    gb_per_s: float
    """Weight bytes over time."""
    limit_ms: float
    """The longer of bytes / bandwidth and operations / peak, the keys and values included."""

    def as_record(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return asdict(self)


def measure_passes(
    forward: Forward, kv: KVTensors, sizes: Weights, rows: Sequence[int], limits: Limits
) -> Iterator[PassCost]:
    """Time passes of so many rows over a context that fills the rest of `kv`'s slots.

    Args:
        forward: runs a pass.
        kv: keys and values, [L, S, G, D] each, with S greater than any of `rows`.
        sizes: what one pass reads and multiplies.
        rows: the numbers of rows, all with logits.
        limits: what the machine sustains.
    """
    context = kv.keys.shape[1] - max(rows)
    forward(chain(0, context, logit_rows=1), kv)
    slot_bytes = 2 * kv.keys[:, 0].numel() * kv.keys.element_size()
    machine = Machine(bytes_per_s=limits.bytes_per_s, flops_per_s=limits.ops_per_s)
    works = [partial(forward, chain(context, count, logit_rows=count), kv) for count in rows]
    for count, seconds in zip(rows, fastest_of_each(works), strict=True):
        limit_s = pass_time_s(machine, sizes, count, kv_bytes=slot_bytes * (context + count))
        yield PassCost(
            rows=count,
            ms=1e3 * seconds,
            gb_per_s=sizes.weight_bytes / seconds / 1e9,
            limit_ms=1e3 * limit_s,
        )


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
