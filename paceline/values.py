"""Values from callers, held to the types that fields and arguments are annotated with."""

from __future__ import annotations

import operator
import typing
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import fields
from functools import cache
from numbers import Real
from reprlib import Repr
from types import UnionType
from typing import Any, get_args, get_origin

from paceline.errors import PacelineError

_WORDS = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "booleans"),
    str: ("a string", "strings"),
    type(None): ("None", "None"),
    Any: ("anything", "items"),
    Callable: ("a callable", "callables"),
}
"""One value of a type, and many."""

_repr = Repr()
_repr.maxstring = _repr.maxother = 60


def conform(name: str, value: Any, kind: Any, error: type[PacelineError]) -> Any:
    """`value` as a `kind`: an annotation of a class, a union, tuple[X, ...] or Mapping[K, V].

    NumPy's numbers become Python's, a sequence a tuple, and a string that stands where several
    may stand a tuple of one. True and False are no numbers.

    Raises:
        error: it is no `kind`; the sentence names `name`, what it must be and what it was.
    """
    try:
        return _cast(value, kind)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{name} must be {described(kind)}, not {shown(value)}.") from None


def conform_fields(instance: object, error: type[PacelineError]) -> None:
    """Make the fields of a frozen dataclass what they are annotated with, as `conform` does."""
    owner: Any = type(instance)
    for name, kind in _field_types(owner).items():
        object.__setattr__(instance, name, conform(name, getattr(instance, name), kind, error))


def is_integer(value: Any) -> bool:
    """Whether it may stand for an int, as NumPy's integers may."""
    try:
        operator.index(value)
    except TypeError:
        return False
    # An array of one integer has an index too.
    return not isinstance(value, bool) and getattr(value, "shape", ()) == ()


def shown(value: Any) -> str:
    """The value as Python writes it, shortened."""
    return _repr.repr(value)


@cache
def _field_types(kind: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _cast(value: Any, kind: Any) -> Any:
    """The value as a `kind`; raises TypeError, ValueError or OverflowError."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return tuple(_cast(item, inner[0]) for item in _items(value, inner[0]))
    if origin is Mapping:
        return {_cast(k, inner[0]): _cast(v, inner[1]) for k, v in _pairs(value)}
    if isinstance(kind, UnionType):
        return _cast(value, next((option for option in inner if _fits(value, option)), inner[0]))
    if kind in (int, float):
        return _number(value, kind)
    if not _fits(value, kind):
        raise TypeError
    return value


def _fits(value: Any, kind: Any) -> bool:
    """Whether it is a `kind`; what a tuple or a mapping holds is not looked at."""
    origin = get_origin(kind) or kind
    if origin is Callable:
        return callable(value)
    if origin is tuple:
        return isinstance(value, Iterable) and not isinstance(value, str)
    if origin is int:
        return is_integer(value)
    if origin is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    return origin is Any or isinstance(value, origin)


def _number(value: Any, kind: type[int] | type[float]) -> int | float:
    if not _fits(value, kind):
        raise TypeError
    return operator.index(value) if kind is int else float(value)


def _items(value: Any, kind: Any) -> tuple[Any, ...]:
    if isinstance(value, str) and kind is str:
        return (value,)
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | Set):
        raise TypeError
    return tuple(value)


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(value, Mapping):
        raise TypeError
    return dict(value).items()


def described(kind: Any, many: bool = False) -> str:
    """The type in words: "an integer", or of `many` "integers"."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if isinstance(kind, UnionType):
        return " or ".join(described(option, many) for option in inner)
    if origin is tuple:
        one = "a string or " if inner[0] is str and not many else ""
        return f"{one}{'sequences' if many else 'a sequence'} of {described(inner[0], many=True)}"
    if origin is Mapping:
        to = f"{described(inner[0], many=True)} to {described(inner[1], many=True)}"
        return f"{'mappings' if many else 'a mapping'} of {to}"
    return _WORDS[origin][many] if origin in _WORDS else origin.__name__
