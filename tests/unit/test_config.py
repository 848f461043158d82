from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from paceline.config import (
    CacheConfig,
    EngineConfig,
    SchedulerConfig,
    SpeculationConfig,
    from_mapping,
)
from paceline.engine.options import configure
from paceline.errors import ConfigError, UnknownNameError


def test_nested_values_build_nested_parts() -> None:
    config = from_mapping(EngineConfig, {"cache": {"block_tokens": 8}, "dtype": "float32"})
    assert config.cache == CacheConfig(block_tokens=8)
    assert config.dtype == "float32"


def test_a_typo_raises_and_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'block_token'; did you mean 'block_tokens'"):
        from_mapping(EngineConfig, {"cache": {"block_token": 8}})
    with pytest.raises(ConfigError, match="k must be a number or 'auto', not 'x'"):
        from_mapping(EngineConfig, {"speculation": {"k": "x"}})


def test_named_arguments_land_in_their_parts() -> None:
    options = {"k": 3, "max_num_requests": 2, "dtype": "float32", "rule": None}
    config = configure(EngineConfig(), ("ngram",), options)  # type: ignore[arg-type]
    assert config.speculation.k == 3
    assert config.speculation.drafts == ("ngram",)
    assert config.speculation.rule is None
    assert config.scheduler.max_num_requests == 2
    assert config.dtype == "float32"
    with pytest.raises(UnknownNameError, match="argument of LLM 'kk'"):
        configure(EngineConfig(), (), {"kk": 3})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize(
    ("part", "values", "complaint"),
    [
        (SpeculationConfig, {"k": 2.5}, "k must be an integer or a string or None, not 2.5."),
        (SpeculationConfig, {"k": True}, "k must be an integer or a string or None, not True."),
        (SpeculationConfig, {"drafts": 5}, "drafts must be a string or a sequence of strings, not"),
        (SchedulerConfig, {"max_rows": "9"}, "max_rows must be an integer, not '9'."),
        (CacheConfig, {"prefix_caching": "no"}, "prefix_caching must be True or False, not 'no'."),
        (EngineConfig, {"device": None}, "device must be a string, not None."),
        (EngineConfig, {"cache": {}}, "cache must be CacheConfig, not {}."),
        (EngineConfig, {"threads": "2"}, "threads must be an integer or None, not '2'."),
        (EngineConfig, {"threads": 0}, "threads must be in 1 .. 1024, not 0."),
        (EngineConfig, {"threads": 2**31}, "threads must be in 1 .. 1024, not 2147483648."),
    ],
)
def test_values_of_another_type(part: type, values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        part(**values)


def test_one_draft_may_stand_alone() -> None:
    assert SpeculationConfig(drafts="ngram").drafts == ("ngram",)  # type: ignore[arg-type]
    assert EngineConfig(threads=np.int64(1024)).threads == 1024  # type: ignore[arg-type]
