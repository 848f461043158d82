"""What a step leaves on the metrics page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.engine import LLM
from paceline.metrics.meters import Meters
from paceline.types import SamplingParams, Speculation, StepStats
from tests.conftest import PROMPTS


@pytest.fixture
def steps(mini: LLM) -> list[StepStats]:
    """A prompt's pass, and others in which the length was pinned."""
    seen: list[StepStats] = []
    mini.engine.listeners.append(seen.append)
    params = SamplingParams(temperature=0, max_tokens=12)
    mini.generate(PROMPTS[1], params, speculation=Speculation(k=3))
    mini.engine.listeners.remove(seen.append)
    return seen


def test_the_estimated_speedup_is_of_the_last_pass_that_decoded(
    mini: LLM, steps: list[StepStats]
) -> None:
    meters = Meters(mini.engine, str)
    prompt = next(step for step in steps if not step.drafts)
    pinned = next(step for step in steps if step.proposed)
    for step, shown in (
        (replace(pinned, speedup=1.25), b"1.25"),
        (prompt, b"1.25"),
        (pinned, b"NaN"),
        (replace(pinned, speedup=1.0), b"1.0"),
    ):
        meters.stepped(step)
        assert b"\npaceline_estimated_speedup %b\n" % shown in meters.page()
