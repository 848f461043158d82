"""`bench step`: the models' passes and `to_laws` are left out, whatever phase they fall in."""

from __future__ import annotations

import time

import pytest

from paceline.bench.step import measure_step
from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.models import LoadedModel
from paceline.sampling import pipeline
from paceline.types import SamplingParams

PROMPT = "def read_lines(path):\n"


class Clock:
    """Every look costs a millisecond, and some work costs whole seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def slow(self, function, seconds):
        def call(*args, **kwargs):
            self.now_s += seconds
            return function(*args, **kwargs)

        return call


def params(tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)


def test_models_and_laws_are_left_out(monkeypatch):
    llm = LLM("mini", draft="model:mini", k=1, max_num_requests=1)
    before = list(llm.engine.listeners)
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    forward = LoadedModel.forward
    monkeypatch.setattr(LoadedModel, "forward", clock.slow(forward, 100.0))
    monkeypatch.setattr(pipeline, "adjust", clock.slow(pipeline.adjust, 10.0))
    measured = measure_step(llm, PROMPT, params(37), "model:mini", 1)
    assert (measured.drafter, measured.k, measured.steps) == ("model:mini", 1, 11)
    assert list(measured.phases) == [
        *("schedule", "propose", "pack", "forward", "laws", "verify", "commit", "observe")
    ]
    for spread in measured.phases.values():
        assert 0.9 < spread.median_ms < 30
    whole = sum(spread.median_ms for spread in measured.phases.values())
    assert whole <= measured.overhead.median_ms < whole + 30
    assert clock.now_s > 100 * 2 * measured.steps
    assert llm.engine.listeners == before


def test_too_few_steps_are_refused():
    llm = LLM("mini", draft="model:mini", k=2, max_num_requests=1)
    before = list(llm.engine.listeners)
    with pytest.raises(ConfigError, match=r"Only 0 steps of .* drafted 2 tokens; ask for more"):
        measure_step(llm, PROMPT, params(6), "model:mini", 2)
    assert llm.engine.listeners == before
