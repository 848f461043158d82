"""Loaded drafters: what options, pins and ceilings mean, and rules that could verify nothing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from paceline.config import CacheConfig, EngineConfig, SpeculationConfig
from paceline.engine import Engine
from paceline.engine.steering import steer
from paceline.errors import ConfigError
from paceline.types import Speculation, StepStats
from tests.engines import TARGET, request, run

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 20}


def loaded(*drafts: str, **speculation: Any) -> Engine:
    config = EngineConfig(
        cache=CacheConfig(num_blocks=64, block_tokens=4),
        speculation=SpeculationConfig(drafts=drafts, **speculation),
    )
    return Engine(TARGET, config)  # type: ignore[arg-type]


def watched(engine: Engine) -> list[StepStats]:
    stats: list[StepStats] = []
    engine.listeners.append(stats.append)
    return stats


def test_the_cap_holds_without_a_controller() -> None:
    engine = loaded("test_sampler", k=2, max_k=((1, 1),))
    stats = watched(engine)
    run(engine, request("r", speculation=Speculation(k=9), max_tokens=12, ignore_eos=True))
    assert max(one.budget for step in stats for one in step.drafts) == 1


def test_a_pinned_length_holds_beside_what_is_loaded() -> None:
    """Also of a drafter that drafts nothing unless it is asked to."""
    engine = loaded("test_sampler:k=0", "test_forest", k="auto")
    steer(engine)
    stats = watched(engine)
    asked = Speculation(drafter="test_sampler", k=3)
    requests = request("a", speculation=asked, ignore_eos=True), request("b", ignore_eos=True)
    run(engine, *requests)
    drafts = [one for step in stats for one in step.drafts if one.request_id == "a"]
    assert ("test_sampler:k=0", 3) in {(one.drafter, one.budget) for one in drafts}


def test_an_operators_options_hold_for_predicted_outputs() -> None:
    engine = loaded("prediction:k=3")
    (plain,) = run(engine, request("p", speculation=Speculation(k=0), **GREEDY))
    stats = watched(engine)
    asked = Speculation(prediction=plain.token_ids)
    (output,) = run(engine, request("r", speculation=asked, **GREEDY))
    assert output.token_ids == plain.token_ids
    assert output.drafter == "prediction:k=3"
    assert max(one.budget for step in stats for one in step.drafts) == 3


@pytest.mark.parametrize(
    ("drafts", "rule", "complaint"),
    [
        ((), "tokn", "'tokn'"),
        (("test_forest",), "block", "Rule 'block' verifies chains"),
        (("test_forest",), "greedy", None),
        (("test_forest", "test_sampler"), "block", None),
        ((), "block", None),
    ],
)
def test_a_rule_that_could_verify_nothing_is_refused_at_start(
    drafts: tuple[str, ...], rule: str, complaint: str | None
) -> None:
    with pytest.raises(ConfigError, match=complaint) if complaint else nullcontext():
        loaded(*drafts, rule=rule)
