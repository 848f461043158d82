"""How long a filter or method of text makes its result at most: measured before it is built."""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any

MAX_CHARS = 1 << 22
"""Length of the output of a template, and of any one value that a call, filter or operator builds.

Escapes of text inside a list or mapping are not counted; they are ten characters at most."""

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_NESTED_WIDTH = re.compile(r"\{[^{}]*\{")


def written(value: Any, gap: int = 2, indent: int = 0, depth: int = 0) -> int:
    """Characters of `value` as text, at most; beyond MAX_CHARS it stops counting."""
    if isinstance(value, (str, bytes)):
        return len(value) + 2 * bool(depth)
    if isinstance(value, int):
        return value.bit_length() // 3 + 2
    if isinstance(value, Mapping):
        items: Any = chain.from_iterable(value.items())
    elif isinstance(value, (list, tuple, set, KeysView, ValuesView, ItemsView)):
        items = value
    else:
        return 64
    total = 2 + indent * depth
    for item in items:
        total += written(item, gap, indent, depth + 1) + gap + indent * (depth + 1)
        if total > MAX_CHARS:
            break
    return total


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> int:
    hits = text.count(old) if isinstance(text, type(old)) else written(text) + 1
    if count is not None and count >= 0:
        hits = min(hits, count)
    return written(text) + hits * written(new)


def _joined(items: Any, separator: Any = "", attribute: Any = None) -> int:
    if isinstance(items, (str, bytes)):
        return len(items) * (1 + written(separator))
    return written(items, gap=written(separator))


def _indented(text: str, width: int | str = 4, *_: Any, **__: Any) -> int:
    lines = 1 + sum(text.count(end) for end in _LINE_ENDS)
    return len(text) + lines * (len(width) if isinstance(width, str) else width)


def _wrapped(
    text: str, width: int = 79, long: bool = True, wrapstring: str | None = None, **_: Any
) -> int:
    return len(text) + (len(text) + 1) * len(wrapstring or "\n")


def _to_json(
    value: Any, _: bool = False, indent: Any = None, separators: Any = None, **__: Any
) -> int:
    gap = sum(map(len, separators)) if separators else 2
    return written(value, gap, len(indent) if isinstance(indent, str) else indent or 0)


def formatted(layout: str, *values: Any, **named: Any) -> int:
    """Of `format` and `%`: as if each field held the longest value at the largest width."""
    every = [*values, *named.values()]
    widths = [int(number) for number in re.findall(r"\d+", layout)]
    if _NESTED_WIDTH.search(layout):
        widths += [value for value in every if isinstance(value, int)]
    fields = max(layout.count("{"), layout.count("%"))
    return len(layout) + fields * (max(map(written, every), default=0) + max(widths, default=0))


def _expanded(text: str, tabsize: int = 8) -> int:
    return len(text) + text.count("\t") * tabsize


def _translated(text: str, table: Any) -> int:
    longest = max(map(written, table.values()), default=1) if isinstance(table, Mapping) else 1
    return len(text) * longest


def _linked(text: str, *options: Any, **named: Any) -> int:
    added = sum(map(written, (*options, *named.values())))
    return 3 * len(text) + len(text.split()) * (64 + added)


def _summed(_: Any, attribute: Any = None, start: Any = 0) -> int:
    return MAX_CHARS + 1 if hasattr(start, "__len__") else 0


Bound = Callable[..., int]
METHODS: dict[str, Bound] = {
    "replace": _replace,
    "join": lambda separator, items: _joined(items, separator),
    "expandtabs": _expanded,
    "translate": _translated,
}
"""Method of text -> bound; the others add no more than a width, which is a modest number."""
FILTERS: dict[str, Bound] = {
    "replace": _replace,
    "join": lambda value, d="", attribute=None: _joined(value, d),
    "indent": _indented,
    "wordwrap": _wrapped,
    "tojson": _to_json,
    "string": written,
    "urlize": _linked,
    "sum": _summed,
}
"""Filter -> bound; the others build nothing longer than what they are given and a width."""
