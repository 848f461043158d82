"""The metrics page; section L of the cases: defined terms, rates of at most one, every request."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROMPTS
from tests.live_server import Live

COMPLETIONS = "/v1/completions"
ASKED: dict[str, Any] = {"temperature": 0, "max_tokens": 24, "speculation": {"drafter": "model"}}
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "server.md"


def told(server: Live, prompts: list[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """How the metrics changed with a request, and the request's own usage."""
    before = server.metrics()
    usage = server.post(COMPLETIONS, prompt=prompts, **ASKED)["usage"]
    after = server.metrics()
    return {name: value - before.get(name, 0) for name, value in after.items()}, usage


def test_mean_over_all(server: Live) -> None:
    """EAGLE 95: the mean was taken of the last step of the last conversation alone."""
    change, usage = told(server, [*PROMPTS])
    counts = usage["speculation"]
    for word in ("proposed", "verified", "accepted"):
        assert change[f"paceline_{word}_tokens_total"] == counts[word]
    assert change["paceline_committed_tokens_total"] == usage["completion_tokens"]
    for name, whole in (("passes", counts["steps"]), ("pass_tokens", counts["committed"])):
        of_model = change[f'paceline_{name}_total{{drafter="model"}}']
        of_none = change.get(f'paceline_{name}_total{{drafter="none"}}', 0)
        assert of_model + of_none == whole
        assert of_none <= len(PROMPTS)  # each output's last token has no room for a draft
    assert change["paceline_prompt_tokens_total"] == usage["prompt_tokens"]
    assert change['paceline_outputs_total{finish_reason="length"}'] <= len(PROMPTS)
    assert change["paceline_time_to_first_token_seconds_count"] == len(PROMPTS)
    first = change["paceline_time_to_first_token_seconds_count"]
    between = change["paceline_inter_token_seconds_count"]
    assert first + between == usage["completion_tokens"]


def test_rate_le_1_and_rate_prefix_only(server: Live) -> None:
    """sglang 11572, vLLM 9565: rates above one; tokens counted behind the first rejection."""
    change, usage = told(server, [*PROMPTS])
    rates = usage["speculation"]["per_position"]
    survived_before = float("inf")
    for position, rate in enumerate(rates):
        labels = f'{{drafter="model",position="{position}"}}'
        reached = change[f"paceline_position_reached_total{labels}"]
        survived = change[f"paceline_position_accepted_total{labels}"]
        assert 0 <= survived <= reached <= survived_before
        assert rate == pytest.approx(survived / reached)
        survived_before = survived
    accepted = sum(
        value for name, value in change.items() if name.startswith("paceline_position_accepted")
    )
    assert accepted == usage["speculation"]["accepted"] <= usage["speculation"]["proposed"]


def test_an_idle_server_holds_nothing(server: Live) -> None:
    told(server, [PROMPTS[0]])
    page = server.metrics()
    assert page["paceline_requests_running"] == page["paceline_requests_waiting"] == 0
    assert page["paceline_kv_blocks_used"] == 0
    assert page["paceline_kv_blocks"] == server.llm.engine.pool.num_blocks


def test_prefix_hits(server: Live) -> None:
    told(server, [PROMPTS[0]])
    change, usage = told(server, [PROMPTS[0]])
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert change["paceline_prefix_hit_tokens_total"] == cached > 0


def test_metric_definitions(server: Live) -> None:
    """vLLM 42508: two tools, one model, two accept lengths: the terms were not defined."""
    text = server.http.get("/metrics").text
    named = set(re.findall(r"^# TYPE (paceline_[a-z_]+?)(?:_total)? ", text, re.MULTILINE))
    explained = set(re.findall(r"`(paceline_[a-z_]+)`", DOCS.read_text()))
    assert named == explained


def test_the_dashboard_shows_what_there_is(server: Live) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    shown = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"paceline_[a-z_]+", target["expr"])
    }
    text = server.http.get("/metrics").text
    plain = {re.sub(r"_bucket$", "", name) for name in shown}
    assert len(shown) > 15
    assert [name for name in plain if f"# TYPE {name} " not in text] == []


def test_acceptance_in_ci(server: Live) -> None:
    """sglang-jax 1586: accepted lengths fell to 1.0 and nothing showed it."""
    told(server, [*PROMPTS])
    page = server.metrics()
    assert page['paceline_acceptance_recent{drafter="model"}'] > 0.2
    assert page['paceline_acceptance_drift_alarm{drafter="model"}'] == 0
