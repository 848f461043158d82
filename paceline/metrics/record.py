"""The counters of outputs as plain values: what `generate --json` and the server's usage tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.types import Output, summed


def speculation_record(outputs: Sequence[Output]) -> dict[str, Any]:
    """What speculation did for outputs of one request, taken together."""
    counts = summed([output.counts for output in outputs])
    return {
        "drafter": outputs[0].drafter,
        "rule": outputs[0].rule,
        "steps": counts.passes,
        "proposed": counts.proposed,
        "verified": counts.verified,
        "accepted": counts.accepted,
        "committed": counts.committed,
        "mean_committed_per_pass": counts.mean_committed_per_pass,
        "acceptance_rate": counts.acceptance_rate,
        "per_position": list(counts.per_position),
        "estimated_speedup": counts.estimated_speedup,
    }
