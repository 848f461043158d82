"""What passes cost: curves fitted to measured ones, robust and rising, with honest errors.

A pass over `rows` rows that reads the keys and values of `context_tokens` tokens (summed over its
requests) costs f(rows) + s * context_tokens, f rising and s >= 0. f is the running median of what
was measured, made to rise; s the median slope between passes of equal rows (Theil 1950, Sen 1968).
Medians, because a shared machine's slow passes are no property of the model.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.chooser.race import Floats
from paceline.errors import ConfigError
from paceline.plan.beta import Interval
from paceline.plan.isotonic import interpolate, isotonic
from paceline.plan.roofline import Machine, Weights, pass_time_s

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pass:
    """One measured pass."""

    rows: int
    context_tokens: int
    ms: float


class PassCosts(Protocol):
    """Anything that says what a pass will cost."""

    def ms(self, rows: float, context_tokens: float = 0.0) -> float:
        """Milliseconds of a pass."""

    def many_ms(self, rows: Floats | Ints, context_tokens: Floats | float = 0.0) -> Floats:
        """Those of passes[n] of rows[n], at one context or at contexts[n]."""


@dataclass(frozen=True)
class CostCurve:
    """f(rows) through knots, and what a token of context adds.

    Beyond the last knot f goes on at the steeper of its last and its mean slope, since a machine
    that is out of spare arithmetic does not get cheaper by the row.
    """

    knots: tuple[float, ...]
    """Rows, rising."""
    values_ms: tuple[float, ...]
    ms_per_context_token: float = 0.0
    errors: tuple[float, ...] = ()
    """|measured / predicted - 1| of each cell, predicted from the others; see `fit_costs`."""

    def ms(self, rows: float, context_tokens: float = 0.0) -> float:
        """Milliseconds of a pass; linear between knots."""
        beyond = max(0.0, rows - self.knots[-1]) * self._last_slope
        inside = interpolate(rows, self.knots, self.values_ms)
        return inside + beyond + self.ms_per_context_token * context_tokens

    def many_ms(self, rows: Floats | Ints, context_tokens: Floats | float = 0.0) -> Floats:
        """Those of passes[n]."""
        beyond = np.maximum(0.0, rows - self.knots[-1]) * self._last_slope
        inside = np.interp(rows, self.knots, self.values_ms)
        return np.asarray(inside + beyond + self.ms_per_context_token * context_tokens)

    @cached_property
    def _last_slope(self) -> float:
        if len(self.knots) < 2:
            return 0.0
        (x0, x1), (y0, y1) = self.knots[-2:], self.values_ms[-2:]
        mean = (y1 - self.values_ms[0]) / (x1 - self.knots[0])
        return max((y1 - y0) / (x1 - x0), mean)

    def error(self, level: float = 0.9) -> float:
        """The relative error not exceeded with probability `level` by a cell that was not seen.

        The ceil((n + 1) level)-th smallest of n errors (conformal prediction, Vovk et al. 2005);
        infinite where n is too small to say.
        """
        rank = math.ceil((len(self.errors) + 1) * level)
        return sorted(self.errors)[rank - 1] if 1 <= rank <= len(self.errors) else math.inf

    def interval_ms(self, rows: float, context_tokens: float = 0.0, level: float = 0.9) -> Interval:
        """The prediction and its bounds."""
        middle, error = self.ms(rows, context_tokens), self.error(level)
        return Interval(max(0.0, middle * (1 - error)), middle, middle * (1 + error))


def fit_costs(passes: Iterable[Pass]) -> CostCurve:
    """Fit a curve; measure each number of rows at two contexts or more, so that s can be told.

    The errors are leave-one-out: each (rows, context) cell's median against a fit to the others, so
    they hold what interpolation costs and not only the noise around points that were seen.
    40 ms for 1 row, 44 for 4 and 60 for 8, at contexts 0 and 1000, the latter 2 ms dearer, gives
    s = .002 and 53 ms for 6 rows at 500.

    Raises:
        ConfigError: no pass, or one that took no time.
    """
    cells = medians(passes)
    slopes = ContextSlopes.between(cells)
    curve = through(cells, slopes.median())
    errors = []
    for place, (left_out, seen) in enumerate(cells.items()):
        others = {cell: ms for cell, ms in cells.items() if cell != left_out}
        if others:
            predicted = through(others, slopes.median(without=place)).ms(*left_out)
            errors.append(abs(seen / predicted - 1))
    return CostCurve(curve.knots, curve.values_ms, curve.ms_per_context_token, tuple(errors))


Cells = dict[tuple[int, int], float]
"""(rows, context_tokens) -> median milliseconds."""


def medians(passes: Iterable[Pass]) -> Cells:
    """The median time of each cell."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for one in passes:
        if one.ms <= 0 or one.rows < 1:
            raise ConfigError(f"A pass of {one.rows} rows in {one.ms} ms was not measured well.")
        found[one.rows, one.context_tokens].append(one.ms)
    if not found:
        raise ConfigError("There is no measured pass to fit costs to; measure some.")
    return {cell: statistics.median(times) for cell, times in sorted(found.items())}


def through(cells: Cells, slope: float) -> CostCurve:
    """The curve through cells at a slope by context, without errors."""
    at_rows: dict[int, list[float]] = defaultdict(list)
    for (rows, context), ms in cells.items():
        at_rows[rows].append(ms - slope * context)
    counts = [float(len(times)) for times in at_rows.values()]
    values = isotonic([statistics.median(times) for times in at_rows.values()], counts)
    return CostCurve(tuple(map(float, at_rows)), tuple(values), slope)


@dataclass(frozen=True, eq=False)
class ContextSlopes:
    """What a token of context adds, between every two cells of equal rows."""

    pairs: Ints
    """[2, n]: the places of the two cells."""
    ms_per_token: Floats

    @classmethod
    def between(cls, cells: Cells) -> ContextSlopes:
        """Those of all such pairs."""
        places: dict[int, list[int]] = defaultdict(list)
        for place, (rows, _) in enumerate(cells):
            places[rows].append(place)
        found = [pair for own in places.values() for pair in itertools.combinations(own, 2)]
        pairs = np.array(found, dtype=np.int64).reshape(-1, 2).T
        contexts = np.array([context for _, context in cells], dtype=float)
        ms = np.array(list(cells.values()))
        return cls(pairs, np.diff(ms[pairs], axis=0)[0] / np.diff(contexts[pairs], axis=0)[0])

    def median(self, without: int = -1) -> float:
        """The median of those that one cell has no part in; at least 0."""
        kept = self.ms_per_token[(self.pairs != without).all(axis=0)]
        return max(0.0, float(np.median(kept))) if len(kept) else 0.0


KNOTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)


def curve_of(ms: Callable[[int], float], context_ms: float = 0.0) -> CostCurve:
    """A curve through a function of the rows, at KNOTS."""
    return CostCurve(tuple(map(float, KNOTS)), tuple(ms(rows) for rows in KNOTS), context_ms)


def roofline_costs(
    machine: Machine, weights: Weights, kv_bytes_per_token: float = 0.0, fixed_ms: float = 0.0
) -> CostCurve:
    """The curve of a machine on paper: the roofline, and a fixed cost per pass (launches).

    7e9 parameters in 16 bits at 1.4 TB/s and 280 TFLOPS: 10 ms up to 192 rows, 25.6 at 512.
    """
    return curve_of(
        lambda rows: fixed_ms + 1e3 * pass_time_s(machine, weights, rows),
        1e3 * kv_bytes_per_token / machine.bytes_per_s,
    )


@dataclass(frozen=True)
class DraftCosts:
    """What drafting costs beside the verifying pass.

    A draft of depth d over b requests costs `step_ms` once, `request_ms` for each request and, for
    each of the d positions, a pass of its own over the requests that reach it. Lookups have no
    passes, heads that guess all positions at once only `step_ms`; a cascade's draft may be longer
    than its model's `most_passes`.
    """

    step_ms: float = 0.0
    request_ms: float = 0.0
    passes: PassCosts | None = None
    most_passes: float = math.inf

    def ms(self, lengths: Sequence[int], context_tokens: float = 0.0) -> float:
        """Milliseconds to draft so many tokens for each request; requests of length 0 are free.

        2 ms a pass of any rows and lengths (4, 2, 0): 4 passes, 8 ms.
        """
        active = [length for length in lengths if length > 0]
        total = self.fixed_ms(len(active))
        if self.passes is not None:
            for depth in range(int(min(max(active, default=0), self.most_passes))):
                rows = sum(length > depth for length in active)
                total += self.passes.ms(rows, context_tokens * rows / len(active))
        return total

    def equal_ms(self, k: int, requests: int, context_tokens: float = 0.0) -> float:
        """Milliseconds to draft k tokens for each of so many requests, however many they are."""
        if k == 0:
            return 0.0
        a_pass = 0.0 if self.passes is None else self.passes.ms(requests, context_tokens)
        return self.fixed_ms(requests) + min(k, self.most_passes) * a_pass

    def fixed_ms(self, requests: int) -> float:
        """Milliseconds that do not hang on the lengths."""
        return self.step_ms * (requests > 0) + self.request_ms * requests


FREE = DraftCosts()
