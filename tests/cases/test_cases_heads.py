"""Sections N and O of what users reported: training, checkpoints, flags and defaults."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.drafters import drafters, parse_drafter
from paceline.drafters.checkpoint import shipped_heads
from paceline.engine import LLM
from paceline.kernels.library import available
from paceline.models import LoadedModel, load_model
from paceline.models.aliases import embedded_folder
from paceline.models.safetensors_file import read_safetensors
from paceline.plan.throughput import expected_tokens_conditional
from paceline.plan.trees import best_tree, by_rank
from paceline.train.capture import capture
from paceline.train.generate import generate_rows
from paceline.train.medusa import MedusaObjective
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS

HEADS = shipped_heads(embedded_folder("mini"))
ROWS, TOKENS = 6, 160


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedModel, torch.Tensor, Path]:
    """Rows that mini writes greedily after prompts of twenty tokens."""
    target, folder = load_model("mini"), tmp_path_factory.mktemp("rows")
    text = "".join(prompt * 9 for prompt in PROMPTS[:2]) * 9
    ids = torch.tensor(target.tokenizer.encode(text)[: ROWS * TOKENS]).view(ROWS, TOKENS)
    rows = generate_rows(target, ids, 0.0, folder / "rows", lambda done, total: None)
    return target, rows, folder


def test_train_serve_tau_match(written: tuple[LoadedModel, torch.Tensor, Path]) -> None:
    """speculators 751, SpecForge 128 and 113, EAGLE 276: heads did worse served than the trainer
    said. What the trainer predicts on the target's own text is what is served on it.
    """
    target, rows, folder = written
    config = json.loads((HEADS / "medusa" / "config.json").read_text())
    objective = MedusaObjective(target, len(config["accuracies"]))
    file = read_safetensors(HEADS / "medusa" / "model.safetensors")
    for i, block in enumerate(objective.module.blocks):
        block.load_state_dict(
            {
                "weight": file.load(f"block.{i}", torch.float32),
                "bias": file.load(f"block_bias.{i}", torch.float32),
            }
        )
    captured = capture(target, rows, (5,), folder / "states", lambda done, total: None)
    acceptance = objective.held_out(captured).acceptance
    predicted = expected_tokens_conditional(acceptance)
    llm = LLM("mini", draft="medusa:tree=false:k=4")
    start = TOKENS // 8
    params = SamplingParams(temperature=0, max_tokens=TOKENS - start, ignore_eos=True)
    outputs = llm.generate([row[:start] for row in rows.tolist()], params)
    passes = sum(output.counts.passes for output in outputs)
    served = sum(output.counts.committed for output in outputs) / passes
    assert served > 1.2
    assert abs(served / predicted - 1) < 0.15


@pytest.mark.parametrize("name", ["medusa", "eagle"])
def test_a_head_tells_what_was_predicted_and_from_what(name: str) -> None:
    """The same: the report stays with the head, so that a weak one is seen to be weak."""
    told = json.loads((HEADS / name / "config.json").read_text())["provenance"]
    held_out = told["held_out"]
    assert held_out["tokens_per_pass"] > 1
    assert len(held_out["acceptance"]) == 4
    assert told["steps"] == told["recipe"]["steps"]
    assert told["generated"] is True


def test_tau_simulator() -> None:
    """SpecForge 63: the accepted length of a configuration, without a server: from a head's own
    accuracies the best tree of any size is a matter of arithmetic.
    """
    accuracies = json.loads((HEADS / "medusa" / "config.json").read_text())["accuracies"]
    expected = [best_tree(by_rank(accuracies), nodes).expected_tokens for nodes in (0, 1, 8, 32)]
    assert expected[0] == 1
    assert expected == sorted(expected)
    assert expected[1] == pytest.approx(1 + accuracies[0][0])


ARGUMENTS = {"model": ":mini-draft", "merged": "+ngram+suffix", "cascade": "+ngram+suffix"}
EVERY = [name + ARGUMENTS.get(name, "") for name in drafters if not name.startswith("test_")]


@pytest.mark.parametrize("name", EVERY)
def test_defaults_start(name: str) -> None:
    """sglang-jax 1611: a default that could not even start. Every drafter's defaults do."""
    llm = LLM("mini", draft=name)
    (output,) = llm.generate("x = [1, 2, 1, 2, 1,", SamplingParams(temperature=0, max_tokens=6))
    assert len(output.token_ids) == 6


DRAFTED: dict[str, dict[str, Any]] = {
    "eagle": {
        "k": 2,
        "tree": False,
        "width": 4,
        "depth": 1,
        "min_prob": 0.6,
        **({"quantize": "int4"} if available() else {}),
    },
    "medusa": {"k": 2, "tree": False, "depth": 1},
    "layerskip": {"k": 2, "layers": "0.5", "head_ids": 300},
}
"""Options of drafters and values that change what is drafted."""


@pytest.mark.parametrize("name", DRAFTED)
def test_no_dead_flags(name: str) -> None:
    """tokenspeed 155, mlx-lm 1297: flags that were taken and did nothing. Each changes drafts."""
    options = type(parse_drafter(name))
    flags = {field.name for field in fields(options)} - {"head", "force"}
    flags -= set() if available() else {"quantize"}
    assert flags == set(DRAFTED[name])
    texts = [f"{name}:{key}={value}" for key, value in DRAFTED[name].items()]
    llm = LLM("mini", draft=(name, *texts))
    params = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True)

    def proposed(text: str) -> list[Any]:
        outputs = llm.generate(PROMPTS[:3], params, speculation=Speculation(drafter=text))
        return [output.counts for output in outputs]

    usual = proposed(name)
    assert [text for text in texts if proposed(text) == usual] == []
