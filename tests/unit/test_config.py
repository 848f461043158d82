from __future__ import annotations

import pytest

from paceline.config import CacheConfig, EngineConfig, from_mapping
from paceline.engine.options import configure
from paceline.errors import ConfigError, UnknownNameError


def test_nested_values_build_nested_parts() -> None:
    config = from_mapping(EngineConfig, {"cache": {"block_tokens": 8}, "dtype": "float32"})
    assert config.cache == CacheConfig(block_tokens=8)
    assert config.dtype == "float32"


def test_a_typo_raises_and_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'block_token'; did you mean 'block_tokens'"):
        from_mapping(EngineConfig, {"cache": {"block_token": 8}})
    with pytest.raises(ConfigError, match="'k' wants a int, not 'x'"):
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
