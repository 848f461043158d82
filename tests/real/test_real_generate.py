"""The main job on real models: the same ids as plain decoding, in fewer passes."""

from __future__ import annotations

import pytest

from paceline.engine import LLM
from paceline.types import SamplingParams, Speculation

pytestmark = pytest.mark.real

MERGE = "Write a Python function that merges two sorted lists."
EDIT = """Rename the variable `total` to `running_sum` and return the whole file, nothing else.

```python
def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def variance(values):
    center = mean(values)
    total = 0.0
    for value in values:
        total += (value - center) ** 2
    return total / len(values)
```
"""


@pytest.fixture(scope="module")
def coder() -> LLM:
    return LLM(
        "qwen2.5-coder-1.5b",
        draft=("model:qwen2.5-coder-0.5b", "ngram", "suffix"),
        max_model_len=2048,
        max_num_requests=4,
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("drafter", "k", "prompt"),
    [("model", 4, MERGE), ("ngram", 8, EDIT), ("suffix", 8, EDIT)],
)
def test_drafted_text_is_the_models_own_in_fewer_passes(
    coder: LLM, drafter: str, k: int, prompt: str
) -> None:
    params = SamplingParams(temperature=0, max_tokens=128)
    text = coder.render([{"role": "user", "content": prompt}])
    plain = coder.generate(text, params, speculation=Speculation(k=0))[0]
    drafted = coder.generate(text, params, speculation=Speculation(drafter=drafter, k=k))[0]
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text
    assert "def " in drafted.text
    print(drafter, drafted.counts.mean_committed_per_pass, drafted.counts.acceptance_rate)
    assert drafted.counts.mean_committed_per_pass > 2.5


@pytest.mark.timeout(1800)
def test_gemma_s_drafted_text_is_its_own() -> None:
    gemma = LLM("gemma3-270m", draft=("ngram", "suffix"), max_model_len=1024, max_num_requests=1)
    params = SamplingParams(temperature=0, max_tokens=96)
    plain = gemma.generate(EDIT, params, speculation=Speculation(k=0))[0]
    for drafter in ("ngram", "suffix"):
        drafted = gemma.generate(EDIT, params, speculation=Speculation(drafter=drafter, k=8))[0]
        print(drafter, drafted.counts.mean_committed_per_pass, drafted.counts.acceptance_rate)
        assert drafted.token_ids == plain.token_ids
        assert drafted.text == plain.text
        assert drafted.counts.accepted > 0
