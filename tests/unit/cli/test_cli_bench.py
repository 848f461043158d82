"""`paceline bench step`: the table and the JSON object of its measurements."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paceline.bench.step import Spread, StepOverhead

MEASURED = StepOverhead(
    drafter="model:mini-draft",
    k=4,
    steps=30,
    phases={"schedule": Spread(0.0371, 0.05), "verify": Spread(0.25, 0.5)},
    overhead=Spread(0.75, 1.25),
)


@pytest.fixture
def measured(cli, monkeypatch):
    """`cli` with that measurement for each drafter; what was asked for is kept."""
    asked = {}

    def measure(llm, prompt, params, drafter, k):
        asked.update(llm=llm, params=params, k=k)
        return replace(MEASURED, drafter=drafter)

    monkeypatch.setattr("paceline.bench.step.measure_step", measure)
    monkeypatch.setattr("paceline.cli.session.load", lambda *args, **settings: (args, settings))
    return cli, asked


def test_json(measured):
    cli, asked = measured
    found = json.loads(
        cli("bench", "step", "--json", "--max-tokens", "99", "--max-model-len", "512").out
    )
    assert [each["drafter"] for each in found["drafters"]] == [
        "model:mini-draft",
        "ngram",
        "suffix",
    ]
    assert found["drafters"][0] == {
        "drafter": "model:mini-draft",
        "k": 4,
        "steps": 30,
        "phases": {
            "schedule": {"median_ms": 0.0371, "p90_ms": 0.05},
            "verify": {"median_ms": 0.25, "p90_ms": 0.5},
        },
        "overhead": {"median_ms": 0.75, "p90_ms": 1.25},
    }
    assert asked["llm"] == (
        ("mini", ["model:mini-draft", "ngram", "suffix"], 1),
        {"k": 4, "kernels": "auto", "threads": None, "max_model_len": 512},
    )
    assert (asked["params"].max_tokens, asked["params"].ignore_eos, asked["k"]) == (99, True, 4)


def test_table(measured):
    drafts = ("--draft", "ngram", "--draft", "none")
    lines = measured[0]("bench", "step", "--k", "2", *drafts).out.splitlines()
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert [cell.strip() for cell in lines[1].strip("┃").split("┃")] == [
        "phase, ms",
        "ngram",
        "none",
    ]
    assert ["schedule", "0.037", "0.037"] in rows
    assert ["whole step", "0.750", "0.750"] in rows
    assert ["90 % of steps", "1.250", "1.250"] in rows
    assert ["steps", "30", "30"] in rows
    assert measured[1]["llm"][0] == ("mini", ["ngram", "none"], 1)
