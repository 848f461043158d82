"""Typed, bounded reading of key-values that come from a model file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import ModelError, ModelFileError


@dataclass(frozen=True)
class Fields:
    """Key-values of one file. Every reader raises ModelFileError, naming file and key.

    A key that is absent or null takes the default; without a default it is a fault.
    """

    values: Mapping[str, Any]
    path: Path
    prefix: str = ""
    """What every key starts with in the file; errors show it."""

    def __contains__(self, key: str) -> bool:
        return self.values.get(self.prefix + key) is not None

    def fault(self, key: str, problem: str) -> ModelFileError:
        """The error that names this file and the key."""
        return ModelFileError(self.path, self.prefix + key, problem)

    @contextmanager
    def fitting(self, what: str) -> Iterator[None]:
        """Name this file in what a value says of fields that do not fit one another."""
        try:
            yield
        except ModelError as error:
            raise (self.fault(what, str(error)) if type(error) is ModelError else error) from error

    def integer(self, key: str, default: int | None = None, *, low: int = 1, high: int) -> int:
        """An integer in low .. high."""
        value = self._get(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self.fault(key, f"{value!r:.80} is no integer in {low} .. {high}")
        return value

    def number(self, key: str, default: float | None = None, *, low: float, high: float) -> float:
        """A finite number in low .. high."""
        value = self._get(key, default)
        if type(value) not in (int, float) or not low <= value <= high or not math.isfinite(value):
            raise self.fault(key, f"{value!r:.80} is no number in {low:g} .. {high:g}")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A boolean."""
        value = self._get(key, default)
        if type(value) is not bool:
            raise self.fault(key, f"{value!r:.80} is no boolean")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(key, default)
        if type(value) is not str:
            raise self.fault(key, f"{value!r:.80} is no string")
        return value

    def group(self, key: str) -> Fields:
        """The key-values within an object; none where the key is absent."""
        value = self._get(key, {})
        if not isinstance(value, dict):
            raise self.fault(key, f"{value!r:.80} is no object")
        prefix = f"{self.prefix}{key}."
        return Fields({prefix + name: item for name, item in value.items()}, self.path, prefix)

    def words(self, key: str, default: Sequence[str] | None = None) -> list[str]:
        """A list of strings."""
        value = self._get(key, default)
        if not isinstance(value, list) or not all(type(item) is str for item in value):
            raise self.fault(key, f"{value!r:.80} is no list of strings")
        return value

    def integers(self, key: str, default: Sequence[int] | None = None, *, high: int) -> list[int]:
        """A list of integers in 0 .. high."""
        value = self._get(key, default)
        if not isinstance(value, list) or not all(
            type(item) is int and 0 <= item <= high for item in value
        ):
            raise self.fault(key, f"{value!r:.80} is no list of integers in 0 .. {high}")
        return value

    def shares(self, key: str) -> list[list[float]]:
        """Lists of numbers in 0 .. 1."""
        value = self._get(key, None)
        if not isinstance(value, list) or not all(
            isinstance(row, list) and all(map(_is_share, row)) for row in value
        ):
            raise self.fault(key, f"{value!r:.80} is no list of lists of numbers in 0 .. 1")
        return value

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(self.prefix + key)
        value = default if value is None else value
        if value is None:
            raise self.fault(key, "is missing")
        return value


def _is_share(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]
