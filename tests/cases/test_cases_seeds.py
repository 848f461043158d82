"""Section C of what users reported of other engines: seeds."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.engine import Engine
from paceline.verify import rules
from tests.engines import run
from tests.habits import DRAFTERS, PROMPTS, alone, ask

HOT: dict[str, Any] = {"temperature": 2.0, "ignore_eos": True}
every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)
CHAINS = ("model:like", "ngram:k=4", "prediction")


@every_drafter
def test_seed_repeat(habit: Engine, drafter: str) -> None:
    """vLLM 6038: seed 42 at temperature 2 gave two texts."""
    texts = {run(habit, ask(name, drafter=drafter, seed=42, **HOT))[0].token_ids for name in "ab"}
    assert texts == {tuple(alone("abc", seed=42, **HOT))}


@pytest.mark.parametrize("rule", [name for name in rules if name != "greedy"])
@pytest.mark.parametrize("drafter", CHAINS)
def test_seed_repeat_under_any_rule(habit: Engine, drafter: str, rule: str) -> None:
    """Under the rules that draw the text hangs on the draft, too; the same draft gives the same."""
    settings = {"drafter": drafter, "rule": rule, "seed": 42, **HOT}
    assert len({run(habit, ask(name, **settings))[0].token_ids for name in "ab"}) == 1
    others = {run(habit, ask("r", **{**settings, "seed": seed}))[0].token_ids for seed in range(4)}
    assert len(others) == 4


@every_drafter
def test_seed_isolation(habit: Engine, drafter: str) -> None:
    """vLLM 9441: requests of other seeds in one batch changed each other's text."""
    asked = [
        ask(f"{word}{seed}", word, drafter, seed=seed, **HOT) for seed in (1, 2) for word in PROMPTS
    ]
    together = [list(output.token_ids) for output in run(habit, *asked)]
    assert together == [alone(word, seed=seed, **HOT) for seed in (1, 2) for word in PROMPTS]


@pytest.mark.parametrize("rule", [None, "token", "multi", "coupled"])
@pytest.mark.parametrize("drafter", CHAINS)
def test_unseeded_independent(habit: Engine, drafter: str, rule: str | None) -> None:
    """TensorRT-LLM 19487: unseeded requests shared a stream and repeated each other's draws."""
    settings = {"drafter": drafter, "rule": rule, **HOT}
    serial = [run(habit, ask("r", **settings))[0].token_ids for _ in range(4)]
    together = [o.token_ids for o in run(habit, *(ask(name, **settings) for name in "abcd"))]
    assert len({*serial, *together}) == 8
