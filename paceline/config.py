"""Engine configuration: frozen parts, composed; an unknown key raises and names the nearest one."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from paceline.errors import ConfigError, UnknownNameError
from paceline.types import check_length
from paceline.values import conform_fields, described

T = TypeVar("T")

MAX_THREADS = 1024
"""What the native kernels can be asked for."""


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """The paged KV cache."""

    block_tokens: int = 16
    num_blocks: int | None = None
    """None: enough for `max_num_requests` contexts of the model, within `max_bytes`."""
    max_bytes: int = 2 << 30
    prefix_caching: bool = True
    kv_dtype: str = "auto"
    """Of keys and values: float32, float16, bfloat16 or int8; auto: as the model computes."""

    def __post_init__(self) -> None:
        """Check the types, and that sizes are positive."""
        conform_fields(self, ConfigError)
        require_positive(self, "block_tokens", "num_blocks", "max_bytes")


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """What one pass may hold."""

    max_num_requests: int = 16
    max_rows: int = 512
    """Rows of one pass; longer prompts are prefilled in chunks."""
    max_model_len: int | None = None
    """Context length in tokens; None takes the model's, or as much of it as the cache holds."""

    def __post_init__(self) -> None:
        """Check the types, and that sizes are positive."""
        conform_fields(self, ConfigError)
        require_positive(self, "max_num_requests", "max_rows", "max_model_len")


@dataclass(frozen=True, kw_only=True)
class SpeculationConfig:
    """What drafts, how far and by which rule, where a request does not say."""

    drafts: tuple[str, ...] = ()
    """Option strings; with a fixed k the first is the default drafter."""
    k: int | str | None = None
    """Draft length; AUTO takes length and drafter as they pay, None the drafter's own length."""
    rule: str | None = None
    max_k: tuple[tuple[int, ...], ...] = ()
    """(requests from which it holds, most tokens to draft for each whatever it asks for), rising:
    ((1, 8), (16, 2), (32, 0))."""
    plan: str | None = None
    """A plan.json of `paceline plan`: costs and acceptance measured on this machine."""

    def __post_init__(self) -> None:
        """Check the types and ranges."""
        conform_fields(self, ConfigError)
        check_length(self.k, ConfigError)
        if any(len(pair) != 2 for pair in self.max_k):
            raise ConfigError(f"max_k wants pairs of requests and tokens, not {self.max_k}.")


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Everything an engine is built from, but for the model itself."""

    cache: CacheConfig = field(default_factory=CacheConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    speculation: SpeculationConfig = field(default_factory=SpeculationConfig)
    dtype: str = "auto"
    kernels: str = "auto"
    """torch; native: the compiled library; auto: native where it can be."""
    quantize: str | None = None
    """int4 or int8; None leaves the model's matrices as they are stored."""
    device: str = "cpu"
    threads: int | None = None
    """1 to MAX_THREADS; None: as OMP_NUM_THREADS or the cores have it."""

    def __post_init__(self) -> None:
        """Check the types and the number of threads."""
        conform_fields(self, ConfigError)
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise ConfigError(f"threads must be in 1 .. {MAX_THREADS}, not {self.threads}.")


def require_positive(config: object, *names: str) -> None:
    """Raise ConfigError where a field is neither None nor at least 1."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}.")


def from_mapping(kind: type[T], values: Mapping[str, Any], where: str = "setting") -> T:
    """Build a (nested) configuration dataclass from plain values, strictly.

    Raises:
        ConfigError: an unknown key (the nearest known one is named) or a value of another type.
    """
    assert dataclasses.is_dataclass(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in values:
        if key not in fields:
            raise UnknownNameError(where, key, fields)
    try:
        return kind(**{key: convert(kind, key, value, where) for key, value in values.items()})
    except TypeError as error:
        raise ConfigError(f"Cannot build {where}: {error}.") from error


def convert(kind: type, key: str, value: Any, where: str) -> Any:
    """Convert `value` to the type of the field `key`; strings are parsed as that type's."""
    annotation = get_hints(kind)[key]
    if dataclasses.is_dataclass(annotation) and isinstance(value, Mapping):
        return from_mapping(annotation, value, f"{where} {key}")  # type: ignore[arg-type]
    if isinstance(value, str):
        return parse(annotation, value, f"{where} '{key}'")
    return value


def get_hints(kind: type) -> dict[str, Any]:
    """The resolved annotations of a dataclass."""
    return typing.get_type_hints(kind)


def parse(annotation: Any, text: str, what: str) -> Any:
    """Parse `text` as a bool, int, float or str, or as an optional one of these."""
    options = [a for a in getattr(annotation, "__args__", (annotation,)) if a is not type(None)]
    for target in options or [str]:
        with suppress(ValueError, KeyError):
            if target is bool:
                return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
            return target(text) if target in (int, float, str) else text
    raise ConfigError(f"{what} must be {described(options[0])}, not '{text}'.")
