"""The named arguments of `LLM`, put where they belong in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypedDict, TypeVar

from paceline.config import EngineConfig
from paceline.errors import UnknownNameError

C = TypeVar("C")


class LLMOptions(TypedDict, total=False):
    """Single settings; None leaves the configuration's value."""

    k: int | None
    rule: str | None
    dtype: str
    kernels: str
    quantize: str | None
    kv_dtype: str
    device: str
    threads: int | None
    max_model_len: int | None
    max_num_requests: int


def configure(config: EngineConfig, drafts: tuple[str, ...], options: LLMOptions) -> EngineConfig:
    """The configuration with `drafts` and `options` put in; an unknown name raises."""
    values = {name: value for name, value in options.items() if value is not None}
    if drafts:
        values["drafts"] = drafts
    for name in values:
        if name not in {*LLMOptions.__annotations__, "drafts"}:
            raise UnknownNameError("argument of LLM", name, LLMOptions.__annotations__)
    return overlay(config, values)


def overlay(config: C, values: Mapping[str, Any]) -> C:
    """Replace fields by name, in the dataclass itself or in the parts it is composed of."""
    assert is_dataclass(config)
    assert not isinstance(config, type)
    changes: dict[str, Any] = {}
    for field in fields(config):
        part = getattr(config, field.name)
        if is_dataclass(part):
            changes[field.name] = overlay(part, values)
        elif field.name in values:
            changes[field.name] = values[field.name]
    return replace(config, **changes)
