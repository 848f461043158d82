"""A bench's charts in one figure, below the machine and the versions they are of."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

from paceline.bench.setting import BenchReport, Chart
from paceline.files import write_whole

WIDTH, HEIGHT = 9.0, 3.4
"""Of a chart, in inches."""


def write_charts(path: Path, report: BenchReport) -> None:
    """Draw the report's charts below one another; needs matplotlib."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    head = [part for line in report.setting.lines() for part in textwrap.wrap(line, 125)]
    count = len(report.charts)
    figure = Figure(figsize=(WIDTH, HEIGHT * count + 0.2 * len(head)), layout="constrained")
    for place, chart in enumerate(report.charts, start=1):
        axes = figure.add_subplot(count, 1, place)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, chart)
    figure.suptitle("\n".join([report.title, *head]), fontsize=7, x=0.01, ha="left")
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=130)
    write_whole(path, held.getvalue())


def draw(axes: Any, chart: Chart) -> None:
    """Groups of bars with their intervals."""
    from matplotlib import colormaps  # noqa: PLC0415

    color = colormaps["tab20"]  # dark ones first, then their lighter kin
    width = 0.8 / len(chart.series)
    for shift, (name, values) in enumerate(chart.series.items()):
        at = [group + width * (shift - (len(chart.series) - 1) / 2) for group in range(len(values))]
        below = [max(0.0, one.middle - one.low) for one in values]
        above = [max(0.0, one.high - one.middle) for one in values]
        middles = [one.middle for one in values]
        axes.bar(at, middles, width, label=name, color=color((2 * shift + shift // 10) % 20))
        if any((*below, *above)):
            axes.errorbar(at, middles, (below, above), fmt="none", ecolor="0.3", capsize=2)
    if chart.base is not None:
        axes.axhline(chart.base, color="black", linewidth=0.8)
    axes.set_xticks(range(len(chart.groups)), chart.groups)
    axes.set_title(chart.title, fontsize=10)
    axes.set_ylabel(chart.unit)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
