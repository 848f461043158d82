"""Layer skip: which layers run, on whose weights, keys and values."""

from __future__ import annotations

import pytest
import torch

from paceline.drafters.layerskip import LayerSkip, parse_layers
from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.types import SamplingParams
from tests.conftest import PROMPTS

GREEDY = SamplingParams(temperature=0, max_tokens=32)


@pytest.mark.parametrize(
    ("text", "layers"), [("3", {3}), ("0-2.5", {0, 1, 2, 5}), ("5.0-1", {0, 1, 5})]
)
def test_layers_are_told_by_numbers_and_ranges(text: str, layers: set[int]) -> None:
    assert parse_layers(text) == layers


@pytest.mark.parametrize("text", ["x", "1,2", "1-", "-1", "1..2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="wants layers to keep"):
        parse_layers(text)


@pytest.mark.parametrize("layers", ["6", "0-9", "3-2"])
def test_layers_that_the_target_lacks_are_refused(layers: str) -> None:
    with pytest.raises(ConfigError, match=r"Keep some of the layers 0 \.\. 5 of mini"):
        LLM("mini", draft=f"layerskip:{layers}")


def test_k_is_checked() -> None:
    with pytest.raises(ConfigError, match="k >= 1"):
        LayerSkip(k=0)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_all_layers_draft_what_the_target_says(kernels: str) -> None:
    """Every draft stands, to the last token: the kept layers see the target's own past."""
    llm = LLM("mini", draft="layerskip:0-5", kernels=kernels)
    outputs = llm.generate(PROMPTS, GREEDY)
    assert all(o.counts.accepted == o.counts.proposed > 0 for o in outputs)


def test_fewer_layers_leave_the_text_and_the_target_alone(mini: LLM) -> None:
    llm = LLM("mini", draft=("layerskip:0-2.4-5", "layerskip:0.5:head_ids=1000"))
    before = {n: w.clone() for n, w in llm.model.weights.items() if isinstance(w, torch.Tensor)}
    plain = mini.generate(PROMPTS, GREEDY)
    outputs = llm.generate(PROMPTS, GREEDY)
    assert [o.token_ids for o in outputs] == [o.token_ids for o in plain]
    accepted = sum(o.counts.accepted for o in outputs)
    assert 0.5 < accepted / sum(o.counts.proposed for o in outputs) < 1
    assert all(torch.equal(llm.model.weights[n], w) for n, w in before.items())


def test_weights_and_cache_are_the_targets(mini: LLM) -> None:
    llm = LLM("mini", draft="layerskip:0.2")
    live = llm.engine._drafters["layerskip:0.2"].live
    runner = live._runner  # type: ignore[attr-defined]
    assert runner.kv is llm.engine._step.runner.kv
    assert runner.model.weights is llm.model.weights
    assert [op.layer for op in runner.model.program.attends] == [0, 2]
