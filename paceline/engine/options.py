"""The named arguments of `LLM`, put where they belong in the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypedDict, TypeVar, get_args, get_type_hints

from paceline.config import EngineConfig
from paceline.errors import ConfigError, UnknownNameError
from paceline.values import conform

C = TypeVar("C")


class LLMOptions(TypedDict, total=False):
    """Single settings; None, where it is allowed, leaves the configuration's value."""

    k: int | str | None
    max_k: tuple[tuple[int, ...], ...]
    plan: str | None
    rule: str | None
    dtype: str
    kernels: str
    quantize: str | None
    kv_dtype: str
    device: str
    threads: int | None
    max_model_len: int | None
    max_num_requests: int


def configure(
    config: EngineConfig | None, draft: str | Sequence[str], options: LLMOptions
) -> EngineConfig:
    """The configuration with `draft` and `options` put in.

    Raises:
        ConfigError: an unknown name, or a value of another type or out of its range.
    """
    base = conform("config", config, EngineConfig | None, ConfigError) or EngineConfig()
    drafts = conform("draft", draft, tuple[str, ...], ConfigError)
    values: dict[str, Any] = {"drafts": drafts} if drafts else {}
    kinds = get_type_hints(LLMOptions)
    for name, value in options.items():
        if name not in kinds:
            raise UnknownNameError("argument of LLM", name, kinds)
        if value is not None or type(None) not in get_args(kinds[name]):
            values[name] = value
    return overlay(base, values)


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
