"""The head in heads/ on its target: the text is the target's own, and some of it is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.engine import LLM
from paceline.types import SamplingParams, Speculation
from tests.real.test_real_generate import EDIT, MERGE

pytestmark = pytest.mark.real

HEAD = Path(__file__).parents[2] / "heads" / "qwen2.5-coder-1.5b" / "eagle"
MODES = {"tree": f"eagle:{HEAD}", "chain": f"eagle:{HEAD}:tree=false"}
SETTINGS = {
    "greedy": SamplingParams(temperature=0, max_tokens=24),
    "coupled": SamplingParams(temperature=0.8, seed=11, max_tokens=24),
}
PLAIN = Speculation(k=0)


@pytest.fixture(scope="module")
def coder() -> LLM:
    return LLM(
        "qwen2.5-coder-1.5b", draft=tuple(MODES.values()), max_model_len=1024, max_num_requests=8
    )


@pytest.fixture(scope="module")
def prompts(coder: LLM) -> list[str]:
    """Eight of different lengths: four as they are, four with another ending."""
    asked = (MERGE, EDIT, "Why is the sky blue?", "What is 12 percent of 250?")
    return [
        coder.render([{"role": "user", "content": text + end}])
        for text in asked
        for end in ("", " Answer in German.")
    ]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_text_is_plain_decodings_alone_and_in_a_batch_of_eight(
    coder: LLM, prompts: list[str], setting: str
) -> None:
    params = SETTINGS[setting]
    plain = [out.token_ids for out in coder.generate(prompts, params, speculation=PLAIN)]
    for mode, drafter in MODES.items():
        drafted = Speculation(drafter=drafter, k=6)
        outputs = coder.generate(prompts, params, speculation=drafted)
        assert [out.token_ids for out in outputs] == plain
        (alone,) = coder.generate(prompts[0], params, speculation=drafted)
        assert alone.token_ids == plain[0]
        accepted = sum(out.counts.accepted for out in outputs)
        print(setting, mode, accepted, sum(out.counts.proposed for out in outputs))
        assert accepted > 0
