"""Smaller keys and values: another text perhaps, but the same one with and without drafts."""

from __future__ import annotations

import pytest

from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.types import SamplingParams, Speculation

PROMPT = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n"


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_drafted_text_is_plain_text(kernels: str) -> None:
    llm = LLM("mini", draft="ngram", kernels=kernels, kv_dtype="int8", max_model_len=256)
    params = SamplingParams(temperature=0, max_tokens=20)
    drafted = llm.generate(PROMPT, params)[0]
    llm.engine.pool.forget_prefixes()
    plain = llm.generate(PROMPT, params, speculation=Speculation(k=0))[0]
    assert drafted.token_ids == plain.token_ids
    assert drafted.counts.verified > 0


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kv_dtype must be auto, float32, .*, not 'int4'"):
        LLM("mini", kv_dtype="int4")
