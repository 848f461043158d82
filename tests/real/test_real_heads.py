"""Heads on a real target: the text is the target's own, whatever the head is worth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paceline.drafters.checkpoint import describe_target, save_head
from paceline.engine import LLM
from paceline.models import load_model
from paceline.train.eagle import EagleObjective
from paceline.train.eagle_shape import shape_of
from paceline.train.export import export_head
from paceline.types import SamplingParams, Speculation
from tests.real.test_real_generate import EDIT, MERGE

pytestmark = pytest.mark.real

TARGET = "qwen2.5-coder-1.5b"
SHIPPED = Path(__file__).parents[2] / "heads" / TARGET / "eagle"
HEADS = ["untrained", *(["shipped"] if SHIPPED.exists() else [])]
SETTINGS = {
    "greedy": SamplingParams(temperature=0, max_tokens=24),
    "coupled": SamplingParams(temperature=0.8, seed=11, max_tokens=24),
}
PLAIN = Speculation(k=0)


@pytest.fixture(scope="module", params=HEADS)
def head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer as its training begins, as int8; or the one that is kept with the code."""
    if request.param == "shipped":
        return SHIPPED
    folder, target = tmp_path_factory.mktemp("heads"), load_model(TARGET)
    ids = torch.arange(16384)
    shape = shape_of(target.spec, 1024, ids, fused=False)
    layer = EagleObjective(target, shape, ids, steps=1, seed=0).module
    config = {"kind": "eagle", **vars(shape), "layers": list(shape.layers)}
    config |= {"draft_ids": ids.tolist(), "target": describe_target(target)}
    tensors = {name: weight.detach().bfloat16() for name, weight in layer.weights.items()}
    save_head(folder / "float", config, tensors)
    export_head(folder / "float", target, "int8", folder / "int8")
    return folder / "int8"


@pytest.mark.timeout(3600)
def test_the_text_is_plain_decodings_alone_and_in_a_batch_of_eight(head: Path) -> None:
    modes = {"tree": f"eagle:{head}", "chain": f"eagle:{head}:tree=false"}
    coder = LLM(TARGET, draft=tuple(modes.values()), max_model_len=1024, max_num_requests=8)
    prompts = eight_prompts(coder)
    for setting, params in SETTINGS.items():
        plain = [out.token_ids for out in coder.generate(prompts, params, speculation=PLAIN)]
        for mode, drafter in modes.items():
            drafted = Speculation(drafter=drafter, k=6)
            outputs = coder.generate(prompts, params, speculation=drafted)
            assert [out.token_ids for out in outputs] == plain
            (alone,) = coder.generate(prompts[0], params, speculation=drafted)
            assert alone.token_ids == plain[0]
            proposed, accepted = (
                sum(getattr(out.counts, name) for out in outputs)
                for name in ("proposed", "accepted")
            )
            print(setting, mode, proposed, accepted)
            assert proposed
            assert accepted or head != SHIPPED


def eight_prompts(coder: LLM) -> list[str]:
    """Of several lengths."""
    asked = (MERGE, EDIT, "Why is the sky blue?", "What is 12 percent of 250?")
    return [
        coder.render([{"role": "user", "content": text + end}])
        for text in asked
        for end in ("", " Answer in German.")
    ]
