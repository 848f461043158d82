"""The counters of outputs as plain values: what `generate --json` and the server's usage tell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from paceline.types import Output, SpeculationCounts


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


def summed(counts: Sequence[SpeculationCounts]) -> SpeculationCounts:
    """The sum of counters; positions are added one by one."""
    return SpeculationCounts(
        passes=sum(c.passes for c in counts),
        proposed=sum(c.proposed for c in counts),
        verified=sum(c.verified for c in counts),
        accepted=sum(c.accepted for c in counts),
        committed=sum(c.committed for c in counts),
        reached=tuple(map(sum, zip_longest(*(c.reached for c in counts), fillvalue=0))),
        speedups=sum(c.speedups for c in counts),
        survived=tuple(map(sum, zip_longest(*(c.survived for c in counts), fillvalue=0))),
    )
