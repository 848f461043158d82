"""Figures of a plan, as PNG and in one page of HTML that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.bench.advice import LONGEST, Advice, curve
from paceline.bench.calibrate import LENGTH, Calibration
from paceline.bench.setting import BenchReport
from paceline.errors import ConfigError
from paceline.files import write_whole
from paceline.plan.lengths import length
from paceline.plan.roofline import Machine, Weights, pass_time_s

ALPHAS = (0.3, 0.5, 0.7, 0.9)
Draw = Callable[[Any], None]
"""Draws on matplotlib's axes."""


def speedup_by_length(found: Calibration) -> Draw:
    """Speedup against k for several alphas, at this machine's costs; what was measured on it."""

    def draw(axes: Any) -> None:
        ks = range(LONGEST + 1)
        name = next(iter(found.drafters))
        for alpha in ALPHAS:
            values = [length((alpha,), 1, k, found.costs(name)).speedup for k in ks]
            axes.plot(ks, values, color="0.7", linewidth=1)
            axes.annotate(f"α = {alpha}", (ks[-1], values[-1]), color="0.5", fontsize=8)
        plain = 1e3 / found.target.ms(1, found.context_tokens)
        for one, seen in found.drafters.items():
            points = curve(found, one, 1)
            (line,) = axes.plot(*zip(*points, strict=True), label=f"{one}, its own α")
            measured = seen.tokens_per_s / plain
            axes.plot([LENGTH], [measured], "o", color=line.get_color(), label=f"{one}, measured")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(xlabel="tokens drafted per pass, k", ylabel="speed over plain decoding")
        axes.legend(fontsize=8)

    return draw


def pass_cost(found: Calibration, machine: Machine | None, sizes: Weights) -> Draw:
    """What a pass takes by its rows, measured, fitted and at the machine's limit."""

    def draw(axes: Any) -> None:
        axes.plot(
            [one.rows for one in found.passes], [one.ms for one in found.passes], ".", color="0.6",
            label="measured",
        )  # fmt: skip
        rows = range(1, int(found.target.knots[-1]) + 1)
        context = float(found.passes[0].context_tokens)
        axes.plot(rows, [found.target.ms(r, context) for r in rows], label="fitted")
        if machine:
            limit = [1e3 * pass_time_s(machine, sizes, r) for r in rows]
            axes.plot(rows, limit, "--", color="black", label="roofline of this machine")
        axes.set(xlabel="rows of a pass", ylabel="ms", xscale="log", yscale="log")
        axes.legend(fontsize=8)

    return draw


def acceptance(found: Calibration) -> Draw:
    """Conditional acceptance by position, with 90 % intervals."""

    def draw(axes: Any) -> None:
        for shift, (name, seen) in enumerate(found.drafters.items()):
            spans = [alpha.interval() for alpha in seen.alphas]
            at = [1 + place + 0.08 * shift for place in range(len(spans))]
            low = [max(0.0, span.middle - span.low) for span in spans]
            high = [max(0.0, span.high - span.middle) for span in spans]
            axes.errorbar(
                at, [s.middle for s in spans], (low, high), fmt="o-", capsize=2, label=name
            )
        axes.set(xlabel="position in the draft", ylabel="P(accepted | all before it were)")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=8)

    return draw


def speed_by_batch(advices: Sequence[Advice]) -> Draw:
    """Tokens per second with and without drafts."""

    def draw(axes: Any) -> None:
        batches = [one.batch for one in advices]
        spans = [one.tokens_per_s for one in advices]
        axes.plot(batches, [one.plain_tokens_per_s for one in advices], "s--", label="plain")
        axes.plot(batches, [span.middle for span in spans], "o-", label="as advised")
        lows, highs = [s.low for s in spans], [s.high for s in spans]
        axes.fill_between(batches, lows, highs, alpha=0.2, label="90 %")
        axes.set(xlabel="requests at once", ylabel="tokens/s, all together", xscale="log")
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.set_ylim(0)
        axes.legend(fontsize=8)

    return draw


def write_figures(folder: Path, figures: Mapping[str, tuple[str, Draw]]) -> dict[str, bytes]:
    """name -> (title, drawing) as PNG files; returns their bytes.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "Figures need matplotlib; install paceline[plots] or leave out --out."
        ) from error
    images = {}
    for name, (title, draw) in figures.items():
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        axes.set_title(title, fontsize=10)
        held = io.BytesIO()
        figure.savefig(held, format="png", dpi=130)
        images[name] = held.getvalue()
        write_whole(folder / f"{name}.png", images[name])
    return images


def as_page(report: BenchReport, images: Mapping[str, bytes]) -> str:
    """The report and its figures as one page."""
    parts = [f"<h1>{html.escape(report.title)}</h1>"]
    parts += [f"<p>{html.escape(line)}</p>" for line in report.setting.lines()]
    for table in report.tables:
        rows = [f"<tr>{''.join(f'<th>{html.escape(c)}</th>' for c in table.header)}</tr>"]
        rows += [
            f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in table.rows
        ]
        parts.append(f"<h2>{html.escape(table.title)}</h2><table>{''.join(rows)}</table>")
    parts += [f"<p>{html.escape(note)}</p>" for note in report.notes]
    parts += [
        f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
        for name, image in images.items()
    ]
    style = (
        "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:left;"
        "border-bottom:1px solid #ddd}img{max-width:100%;margin:1em 0}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(report.title)}'
        f"</title><style>{style}</style><body>{''.join(parts)}</body></html>"
    )
