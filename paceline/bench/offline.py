"""`bench offline`: tokens per second by kind and batch, off, automatic and fixed by turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from paceline.bench.policies import AUTOMATIC, OFF, Cell, median_interval
from paceline.bench.setting import BenchReport, Chart, Finding, Setting, Table

NEVER_SLOWER, NEAR_BEST = 0.98, 0.95
"""Of plain decoding's speed, and of the best fixed length's."""
NOTES = (
    "Each policy has a controller of its own for each kind and batch. It knew nothing in the first"
    " turn (first), which does not count, and kept what it learnt: a server warms up once.",
    "No run knows texts of another: prefixes are forgotten, and each run is another owner's.",
)


def report(cells: Sequence[Cell], setting: Setting) -> BenchReport:
    """Tables, findings and the record of a run."""
    return BenchReport(
        "Offline decoding",
        setting,
        (speed_table(cells), latency_table(cells)),
        findings(cells),
        NOTES,
        {"cells": [cell_record(cell) for cell in cells]},
        (speed_chart(cells),),
    )


def speed_table(cells: Sequence[Cell]) -> Table:
    """A row a cell and policy."""
    header = (
        "kind",
        "batch",
        "policy",
        "tokens/s",
        "first",
        "x off",
        "95 %",
        "tokens/pass",
        "prefill",
    )
    rows = []
    for cell in cells:
        for name, runs in cell.runs.items():
            ratio = median_interval(cell.ratios(name))
            steps = [step for run in runs for step in run.steps]
            per_pass = sum(s.committed for s in steps) / sum(len(s.drafts) for s in steps)
            prefill_ms = sum(run.draft_prefill_ms for run in runs) / len(runs)
            speeds = cell.tokens_per_s(name), cell.warm_up[name].tokens_per_s
            figures = (*(f"{speed:.1f}" for speed in speeds), f"{ratio.middle:.3f}")
            spread = f"{ratio.low:.3f} - {ratio.high:.3f}"
            more = (spread, f"{per_pass:.2f}", f"{prefill_ms:.0f} ms")
            rows.append((cell.kind, str(cell.batch), name, *figures, *more))
    title = f"Decode phase, medians over {turns(cells)} turns; prefill is the drafters' own"
    return Table(title, header, rows)


def speed_chart(cells: Sequence[Cell]) -> Chart:
    """Every policy's speed over plain decoding's."""
    names = [name for name in cells[0].runs if name != OFF]
    return Chart(
        "Decoding speed over drafting off, medians and 95 % intervals",
        "x off",
        [f"{cell.kind}, {cell.batch}" for cell in cells],
        {name: [median_interval(cell.ratios(name)) for cell in cells] for name in names},
        base=1.0,
    )


def latency_table(cells: Sequence[Cell]) -> Table:
    """What a request waits, off and automatic."""
    rows = []
    for cell in cells:
        for name in (OFF, AUTOMATIC):
            first, each = cell.latency(name)
            waits = [f"{ms:.0f}" for ms in (first.p50, first.p90, first.p99)]
            gaps = [f"{ms:.1f}" for ms in (each.p50, each.p90, each.p99)]
            rows.append((cell.kind, str(cell.batch), name, " / ".join(waits), " / ".join(gaps)))
    header = ("kind", "batch", "policy", "TTFT p50 / p90 / p99, ms", "ms/token p50 / p90 / p99")
    return Table("By request", header, rows)


def findings(cells: Sequence[Cell]) -> list[Finding]:
    """Never slower than off, near the best fixed length where there is one, and the same text."""
    found = []
    for cell in cells:
        where = f"{cell.kind}, batch {cell.batch}"
        ratio = median_interval(cell.ratios(AUTOMATIC))
        found.append(
            Finding(
                f"never slower: {where}: {ratio.middle:.3f} of plain decoding"
                f" (95 %: {ratio.low:.3f} to {ratio.high:.3f})",
                ratio.middle >= NEVER_SLOWER and ratio.high >= NEVER_SLOWER,
            )
        )
        if len(cell.runs) > 2:
            share = median_interval(cell.ratios(AUTOMATIC, cell.best_fixed))
            found.append(
                Finding(
                    f"best k: {where}: {share.middle:.3f} of the best fixed one, {cell.best_fixed}"
                    f" (95 %: {share.low:.3f} to {share.high:.3f})",
                    share.middle >= NEAR_BEST,
                )
            )
        found.append(Finding(f"same text under every policy: {where}", cell.same_text))
    return found


def turns(cells: Sequence[Cell]) -> int:
    """How often each policy ran in a cell."""
    return len(cells[0].runs[OFF])


def cell_record(cell: Cell) -> dict[str, Any]:
    """A cell's figures, every turn's speed among them."""
    return {
        "kind": cell.kind,
        "batch": cell.batch,
        "same_text": cell.same_text,
        "policies": {
            name: {
                "tokens_per_s": [run.tokens_per_s for run in runs],
                "first_tokens_per_s": cell.warm_up[name].tokens_per_s,
                "draft_prefill_ms": [run.draft_prefill_ms for run in runs],
                "over_off": asdict(median_interval(cell.ratios(name))),
                "ttft_ms": asdict(cell.latency(name)[0]),
                "ms_per_token": asdict(cell.latency(name)[1]),
                "modes": modes(runs),
            }
            for name, runs in cell.runs.items()
        },
    }


def modes(runs: Sequence[Any]) -> dict[str, int]:
    """How many steps were for what."""
    found: dict[str, int] = {}
    for run in runs:
        for step in run.steps:
            found[step.mode] = found.get(step.mode, 0) + 1
    return found
