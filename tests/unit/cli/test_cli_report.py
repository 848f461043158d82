"""The JSON object and the table, from an output made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from rich.console import Console

from paceline.cli.report import as_record, as_table, json_line, peak_rss_bytes
from paceline.types import FinishReason, Output, SpeculationCounts, Timing

OUTPUT = Output(
    request_id="0",
    text="pâss",
    token_ids=(5, 6, 7, 8, 9, 10, 11),
    finish_reason=FinishReason.STOP,
    prompt_tokens=3,
    cached_tokens=1,
    drafter="model:mini-draft",
    rule="greedy",
    counts=SpeculationCounts(
        passes=2,
        proposed=8,
        verified=8,
        accepted=4,
        committed=6,
        reached=(2, 2),
        survived=(2, 1),
        speedups=2.5,
    ),
    timing=Timing(prefill_s=0.5, decode_s=2.0),
)
RECORD = {
    "text": "pâss",
    "token_ids": [5, 6, 7, 8, 9, 10, 11],
    "finish_reason": "stop",
    "usage": {"prompt_tokens": 3, "completion_tokens": 7},
    "speculation": {
        "drafter": "model:mini-draft",
        "rule": "greedy",
        "steps": 2,
        "proposed": 8,
        "verified": 8,
        "accepted": 4,
        "committed": 6,
        "mean_committed_per_pass": 3.0,
        "acceptance_rate": 0.5,
        "per_position": [1.0, 0.5],
        "estimated_speedup": 1.25,
    },
    "timing": {"load_s": 1.25, "prefill_s": 0.5, "decode_s": 2.0, "decode_tokens_per_s": 3.0},
}


def test_record():
    assert as_record(OUTPUT, 1.25) == RECORD


def test_a_single_token_has_no_speed():
    timing = Timing(prefill_s=0.5, decode_s=0.0)
    output = replace(OUTPUT, counts=SpeculationCounts(), timing=timing)
    assert as_record(output, 1.25)["timing"]["decode_tokens_per_s"] == 0.0


def test_one_line_for_one_turn():
    line = json_line([OUTPUT], 1.25)
    assert json.loads(line) == RECORD
    assert "pâss" in line


def test_turns_are_listed_where_there_are_several():
    last = replace(OUTPUT, text="more")
    expected = RECORD | {"text": "more"}
    line = json_line([OUTPUT, last], 1.25)
    assert json.loads(line) == expected | {"turns": [RECORD, expected]}


def test_table():
    console = Console(width=100)
    with console.capture() as captured:
        console.print(as_table("mini", OUTPUT, 1.25))
    rows = [[cell.strip() for cell in r.split("│")[1:3]] for r in captured.get().splitlines()]
    table = dict(row for row in rows if len(row) == 2)
    peak = table.pop("peak memory")
    assert table == {
        "model": "mini",
        "drafter, rule": "model:mini-draft, greedy",
        "prompt tokens": "3 (1 from the prefix cache)",
        "completion tokens": "7 (ended by stop)",
        "passes": "2",
        "proposed, accepted": "8, 4",
        "committed per pass": "3.00",
        "acceptance rate": "0.500",
        "by position": "1.00 0.50",
        "load, prefill, decode": "1.25, 0.50, 2.00 s",
        "decode speed": "3.0 tokens/s",
    }
    assert abs(float(peak.removesuffix(" MiB")) - peak_rss_bytes() / 2**20) < 8


def test_peak_memory_grows_with_what_is_held():
    script = (
        "from paceline.cli.report import peak_rss_bytes as peak\n"
        "before = peak(); held = b'x' * (64 << 20); grown = peak() - before\n"
        "assert 60 << 20 < grown < 80 << 20, grown\n"
        "del held; assert peak() - before > 60 << 20"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
