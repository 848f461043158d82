"""An Output as one JSON object, and as a table for people."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.metrics import speculation_record
from paceline.types import Output

if TYPE_CHECKING:
    from rich.table import Table


def as_record(output: Output, load_s: float) -> dict[str, Any]:
    """The object that --json prints; the metric words are those of docs/architecture.md."""
    told: dict[str, Any] = {} if output.error is None else {"error": output.error}
    if output.logprobs is not None:
        told["logprobs"] = [*map(asdict, output.logprobs)]
    return told | {
        "text": output.text,
        "token_ids": list(output.token_ids),
        "finish_reason": output.finish_reason.value,
        "usage": {
            "prompt_tokens": output.prompt_tokens,
            "completion_tokens": len(output.token_ids),
        },
        "speculation": speculation_record([output]),
        "timing": {
            "load_s": load_s,
            "prefill_s": output.timing.prefill_s,
            "decode_s": output.timing.decode_s,
            "decode_tokens_per_s": decode_tokens_per_s(output),
        },
    }


def json_line(outputs: Sequence[Output], load_s: float) -> str:
    """The last turn's object; where there were several turns it lists them all as `turns`."""
    turns = [as_record(output, load_s) for output in outputs]
    return json.dumps(turns[-1] | ({"turns": turns} if len(turns) > 1 else {}), ensure_ascii=False)


def decode_tokens_per_s(output: Output) -> float:
    """Tokens committed after prefill, per second of those passes; 0 where there were none."""
    seconds = output.timing.decode_s
    return output.counts.committed / seconds if seconds else 0.0


def as_table(model: str, output: Output, load_s: float) -> Table:
    """The table that --stats prints."""
    from rich.table import Table

    counts, timing = output.counts, output.timing
    rows = {
        "model": model,
        "drafter, rule": f"{output.drafter}, {output.rule}",
        "prompt tokens": f"{output.prompt_tokens} ({output.cached_tokens} from the prefix cache)",
        "completion tokens": f"{len(output.token_ids)} (ended by {output.finish_reason.value})",
        "passes": f"{counts.passes}",
        "proposed, accepted": f"{counts.proposed}, {counts.accepted}",
        "committed per pass": f"{counts.mean_committed_per_pass:.2f}",
        "acceptance rate": f"{counts.acceptance_rate:.3f}",
        "by position": " ".join(f"{rate:.2f}" for rate in counts.per_position) or "-",
        "load, prefill, decode": f"{load_s:.2f}, {timing.prefill_s:.2f}, {timing.decode_s:.2f} s",
        "decode speed": f"{decode_tokens_per_s(output):.1f} tokens/s",
        "peak memory": f"{peak_rss_bytes() / 2**20:.0f} MiB",
    }
    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def peak_rss_bytes() -> int:
    """The most memory this process has held; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's getrusage counts what the parent held before exec, too.
        (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(peak_kib) << 10
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def print_stats(model: str, output: Output, load_s: float) -> None:
    """Print the table to stderr, so that stdout holds the text alone."""
    from rich.console import Console

    Console(stderr=True).print(as_table(model, output, load_s))
