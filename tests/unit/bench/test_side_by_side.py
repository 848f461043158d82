"""Runs side by side: whose turn it is, whose steps they are, and that they disturb no other."""

from __future__ import annotations

from typing import cast

import pytest

from paceline.bench.decoding import Run, Running, decodes, run_batch, running
from paceline.bench.side_by_side import side_by_side
from paceline.bench.steered import new_wheel
from paceline.engine import LLM
from paceline.errors import CacheError
from paceline.types import SamplingParams, Speculation

PARAMS = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
PLAIN, DRAFTED = Speculation(k=0), Speculation(drafter="ngram", k=3)


@pytest.fixture(scope="module")
def roomy() -> LLM:
    return LLM("mini", draft="ngram", max_num_requests=4, max_model_len=256)


@pytest.fixture(autouse=True)
def slices_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second later than the last."""
    now = iter(range(1_000_000))
    monkeypatch.setattr("paceline.bench.side_by_side.time.perf_counter", lambda: float(next(now)))
    monkeypatch.setattr("paceline.bench.side_by_side.SLICE_S", 1.5)


def told(run: Running, name: str, order: list[str]) -> Running:
    """The run, writing its name down at every step."""
    while True:
        try:
            step = next(run)
        except StopIteration as end:
            return cast(Run, end.value)
        order.append(name)
        yield step


def test_the_run_that_is_behind_goes_next(roomy: LLM) -> None:
    ids, order = roomy.encode("def add(a, b):\n    return"), list[str]()
    runs = {name: told(running(roomy, [ids], PARAMS, PLAIN), name, order) for name in ("a", "b")}
    wheels = {name: new_wheel(roomy) for name in runs}
    side_by_side(roomy, runs, wheels, lambda step: {"a": 1, "b": 3}[order[-1]])
    # A step of b counts for three of a's; the prompt's pass is a step like any other.
    assert order[:8] == ["a", "b", "a", "a", "a", "b", "a", "a"]
    assert order.count("a") == order.count("b") == PARAMS.max_tokens


def test_each_has_the_steps_and_the_text_it_has_alone(roomy: LLM) -> None:
    prompts = [roomy.encode("x = [1, 2, 1, 2, 1,"), roomy.encode("import os\n")]
    asked = {"off": PLAIN, "ngram": DRAFTED}
    alone = {name: run_batch(roomy, prompts, PARAMS, how) for name, how in asked.items()}
    runs = {name: running(roomy, prompts, PARAMS, how) for name, how in asked.items()}
    wheels = {name: new_wheel(roomy) for name in runs}
    found = side_by_side(roomy, runs, wheels, lambda step: step.committed if decodes(step) else 0)
    for name, run in found.items():
        assert run.texts == alone[name].texts
        shapes = [(step.verify_rows, step.committed, step.mode) for step in run.steps]
        assert shapes == [(s.verify_rows, s.committed, s.mode) for s in alone[name].steps]
        assert {one.request_id for step in run.steps for one in step.drafts} == set(run.requests)
    assert not roomy.engine.has_work


def test_where_one_fails_none_is_left_behind(roomy: LLM) -> None:
    ids = roomy.encode("x = 1\n")

    def failing() -> Running:
        yield from running(roomy, [ids], PARAMS, PLAIN)
        raise RuntimeError("it broke")

    runs = {"good": running(roomy, [ids], PARAMS, DRAFTED), "bad": failing()}
    with pytest.raises(RuntimeError, match="it broke"):
        side_by_side(roomy, runs, {name: new_wheel(roomy) for name in runs}, lambda _: 1)
    assert not roomy.engine.has_work


def test_a_cache_too_small_for_all_of_them_is_told() -> None:
    llm = LLM("mini", max_num_requests=1, max_model_len=64)
    ids = llm.encode("x = 1\n")
    runs = {name: running(llm, [ids], PARAMS, PLAIN) for name in ("a", "b")}
    with pytest.raises(CacheError, match="No request finds room"):
        side_by_side(llm, runs, {name: new_wheel(llm) for name in runs}, lambda _: 1)
