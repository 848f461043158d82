"""`bench online`: what users wait by pattern and rate, drafting off and on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from paceline.bench.arrivals import OFF, ON, Window
from paceline.bench.policies import median_interval
from paceline.bench.setting import BenchReport, Chart, Setting, Table
from paceline.plan.beta import Interval
from paceline.plan.workload import Percentiles, Slo

NOTES = (
    "TTFT counts from the time a request was to be sent. Milliseconds per token are a request's"
    " time from its first token to its last, over the tokens in between.",
    "Off and on take turns with the same prompts and times; x off compares turn by turn.",
)


@dataclass(frozen=True)
class Cell:
    """The windows of one pattern and rate, by way; in the order of turns."""

    pattern: str
    rate: float
    windows: dict[str, list[Window]]

    @property
    def title(self) -> str:
        """Pattern and rate."""
        return f"{self.pattern}, {self.rate:g}/s"

    def medians(self, way: str, value: Callable[[Window], float]) -> Interval:
        """Over the windows, with its 95 % interval."""
        return median_interval([value(one) for one in self.windows[way]])

    def ratio(self, value: Callable[[Window], float]) -> Interval:
        """On over off, turn by turn."""
        pairs = zip(self.windows[ON], self.windows[OFF], strict=True)
        return median_interval([value(on) / value(off) for on, off in pairs])


def cells_of(windows: Sequence[Window]) -> list[Cell]:
    """Windows by pattern and rate."""
    found: dict[tuple[str, float], Cell] = {}
    for one in windows:
        key = one.pattern, one.rate
        found.setdefault(key, Cell(*key, {OFF: [], ON: []})).windows[one.way].append(one)
    return list(found.values())


def report(
    windows: Sequence[Window], slo: Slo, setting: Setting, notes: Sequence[str] = ()
) -> BenchReport:
    """A table, charts and the record."""
    cells = cells_of(windows)
    limits = (("TTFT", slo.ttft_ms), ("ms/token", slo.ms_per_token))
    kept = " and ".join(f"{name} <= {most:g} ms" for name, most in limits if most < math.inf)
    goodput = f"Goodput: requests a second with {kept}." if kept else "Goodput: without a limit."
    return BenchReport(
        "Online",
        setting,
        (speed_table(cells, slo), wait_table(cells)),
        (),
        (*NOTES, goodput, *notes),
        {"slo": limits_of(slo), "cells": [record_of(cell, slo) for cell in cells]},
        charts_of(cells, slo),
    )


def speed_table(cells: Sequence[Cell], slo: Slo) -> Table:
    """A row a cell and way."""
    rows = []
    for cell in cells:
        ratio = cell.ratio(lambda one: one.ms_per_token().p50)
        times = f"{ratio.middle:.3f} ({ratio.low:.3f} - {ratio.high:.3f})"
        for way, own in cell.windows.items():
            speed = median(one.tokens_per_s for one in own)
            good = median(one.goodput_per_s(slo) for one in own)
            figures = (f"{speed:.1f}", f"{good:.3f}", times if way == ON else "")
            failed = sum(one.failed for one in own)
            rows.append((cell.title, way, *figures, str(failed)))
    header = ("arrivals", "drafting", "tokens/s", "goodput/s", "ms/token x off (95 %)", "failed")
    return Table(f"Medians over {len(cells[0].windows[OFF])} windows", header, rows)


def wait_table(cells: Sequence[Cell]) -> Table:
    """Percentiles over the requests of all windows."""
    rows = []
    for cell in cells:
        for way, own in cell.windows.items():
            seen = [one for window in own for one in window.seen]
            first = Percentiles.of([one.ttft_ms for one in seen])
            each = Percentiles.of([one.ms_per_token for one in seen])
            rows.append((cell.title, way, told(first, 0), told(each, 1)))
    header = ("arrivals", "drafting", "TTFT p50 / p90 / p99, ms", "ms/token p50 / p90 / p99")
    return Table("By request", header, rows)


def told(values: Percentiles, digits: int) -> str:
    """p50 / p90 / p99."""
    return " / ".join(f"{value:.{digits}f}" for value in (values.p50, values.p90, values.p99))


def charts_of(cells: Sequence[Cell], slo: Slo) -> tuple[Chart, ...]:
    """Latencies and goodput, off beside on."""
    values: dict[tuple[str, str], Callable[[Window], float]] = {
        ("Time to the first token, median request", "ms"): lambda one: one.ttft_ms().p50,
        ("Time per token, median request", "ms"): lambda one: one.ms_per_token().p50,
        ("Goodput", "requests/s"): lambda one: one.goodput_per_s(slo),
    }
    charts = []
    for title, value in values.items():
        series = {way: [cell.medians(way, value) for cell in cells] for way in (OFF, ON)}
        charts.append(Chart(*title, [cell.title for cell in cells], series))
    return tuple(charts)


def record_of(cell: Cell, slo: Slo) -> dict[str, Any]:
    """A cell's figures, window by window."""
    return {
        "pattern": cell.pattern,
        "rate": cell.rate,
        "ms_per_token_over_off": asdict(cell.ratio(lambda one: one.ms_per_token().p50)),
        "ways": {
            way: [
                {
                    "requests": len(one.seen),
                    "failed": one.failed,
                    "seconds": one.seconds,
                    "tokens_per_s": one.tokens_per_s,
                    "goodput_per_s": one.goodput_per_s(slo),
                    "ttft_ms": asdict(one.ttft_ms()),
                    "ms_per_token": asdict(one.ms_per_token()),
                }
                for one in own
            ]
            for way, own in cell.windows.items()
        },
    }


def limits_of(slo: Slo) -> dict[str, float | None]:
    """The limits; JSON has no infinity, so none stands for it."""
    return {name: most if most < math.inf else None for name, most in asdict(slo).items()}
