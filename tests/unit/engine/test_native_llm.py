"""`kernels="native"`: drafted text is plain text there too, and a wrong name is refused."""

from __future__ import annotations

import pytest

from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.kernels.library import available
from paceline.models import load_model
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS


@pytest.mark.parametrize("options", ["", ":quantize=int4:head_ids=3000"])
def test_native_text_is_the_same_with_and_without_a_draft(options: str) -> None:
    """Where the library was not built, asking for it is one clear error."""
    draft = f"model:mini-draft{options}"
    if not available():
        with pytest.raises(ConfigError, match="native kernels were not built"):
            LLM("mini", kernels="native")
        return
    native = LLM("mini", draft=draft, kernels="native")
    params = SamplingParams(temperature=0, max_tokens=24)
    drafted = native.generate(PROMPTS, params)
    native.engine.pool.forget_prefixes()
    plain = native.generate(PROMPTS, params, speculation=Speculation(k=0))
    assert [o.token_ids for o in drafted] == [o.token_ids for o in plain]
    assert sum(o.counts.accepted for o in drafted) > 0


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(ConfigError, match="kernels must be auto, torch or native, not 'fast'"):
        load_model("mini", kernels="fast")
