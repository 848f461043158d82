"""Jinja for templates from model files: sandboxed, and metered so that none runs or grows for ever.

The dialect is that of `transformers`: trimmed blocks, `tojson` without HTML escapes,
`raise_exception`, `strftime_now`, `break` and `continue`, `{% generation %}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache, wraps
from types import CodeType
from typing import Any, NoReturn, cast

from jinja2 import Template, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from paceline.models.lengths import FILTERS, MAX_CHARS, METHODS, formatted, written

MAX_STEPS = 200_000
"""Loop rounds and numbers of `range` that one rendering may take; a macro call is twenty."""
MAX_PRINTED = 4 * MAX_CHARS
"""What all expressions of one rendering may print, those of macros and captured blocks too."""

_WIDE_NUMBER = re.compile(r"\d{6}")
_WIDE = 10**6


class RefusalError(Exception):
    """The template called `raise_exception`: it does not take these messages."""


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one rendering; it counts what that rendering uses."""

    concat = staticmethod(lambda chunks: _concatenated(*chunks))
    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=self._printed,
        )
        self._steps_left, self._chars_left = MAX_STEPS, MAX_PRINTED
        self.filters.update(tojson=_to_json, format=_printf)
        self.filters.update({name: _measured(name, self.filters[name]) for name in FILTERS})
        self.filters.update(step=self._step, bounded=_bounded, modest=_modest)
        self.filters.update(concatenated=_concatenated)
        del self.globals["lipsum"]
        self.globals.update(range=self._range, raise_exception=_refuse, strftime_now=_strftime_now)

    def spend(self, count: int) -> None:
        """Take steps from this rendering's budget."""
        self._steps_left -= count
        if self._steps_left < 0:
            raise SecurityError(f"takes more than {MAX_STEPS} steps")

    def call(self, context: Any, callee: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call, but with modest numbers."""
        for value in (*args, *kwargs.values()):
            _modest(value)
        text, name = getattr(callee, "__self__", None), getattr(callee, "__name__", "")
        if isinstance(text, (str, bytes)) and name in METHODS:
            args = tuple(map(_held, args))
            _fits(METHODS[name](text, *args, **kwargs))
        return super().call(context, callee, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Multiply, raise to a power or format, where the result cannot be huge."""
        if operator == "**" and max(abs(left), abs(right)) > 64:
            raise SecurityError("raises a number to a huge power")
        if operator == "%" and isinstance(left, str):
            _modest_widths(left)
            _fits(formatted(left, *(right if isinstance(right, tuple) else (right,))))
        if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            _fits(len(left) + len(right))
        if operator == "*":
            sizes = [len(v) if hasattr(v, "__len__") else abs(v) for v in (left, right)]
            if sizes[0] * sizes[1] > MAX_CHARS:
                raise SecurityError(f"multiplies to more than {MAX_CHARS}")
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Any:
        """`str.format`, with modest widths."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and _WIDE_NUMBER.search(value.__self__):
            raise SecurityError("formats to a huge width")
        return wrapped and _measured_format(value.__self__, wrapped)

    @pass_context  # which also keeps the compiler from taking the step itself
    def _step(self, context: Context, count: int) -> bool:
        self.spend(count)
        return True

    def _printed(self, value: Any) -> Any:
        """`value`, unless with it the expressions print too much, into captured blocks or out."""
        self._chars_left -= written(value)
        if self._chars_left < 0:
            raise SecurityError(f"prints more than {MAX_PRINTED} characters")
        return value

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self.spend(len(numbers))
        return numbers

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Parse, and put a meter into every loop, macro and assignment."""
        metered: nodes.Template = _Meter().visit(super()._parse(source, name, filename))
        return metered


class _Meter(NodeTransformer):
    """Adds filters that count and measure; a template can rebind names, but no filters."""

    # The names are jinja2's: visit_ and the kind of node.
    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.test is not None:
            node.test = nodes.And(_ROUND, node.test)
        node.body.insert(0, nodes.ExprStmt(_ROUND))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_CALL))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.args = [_filtered(value, "modest") for value in node.args]
        for option in node.kwargs:
            option.value = _filtered(option.value, "modest")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        first, *others = node.nodes
        return nodes.Filter(first, "concatenated", others, [], None, None)

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.node = _filtered(cast(nodes.Expr, node.node), "bounded")
        return node


def _filtered(value: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None)


_ROUND, _CALL = (_filtered(nodes.Const(count), "step") for count in (1, 20))
"""The steps that a loop's round and a macro's call take, by what they cost."""


class _Generation(Extension):
    """`{% generation %}` marks the assistant's text for trainers; here it is only its body."""

    tags = {"generation"}  # noqa: RUF012 - as its base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements up to `{% endgeneration %}`."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def run(source: str, variables: dict[str, Any]) -> str:
    """Render; raises RefusalError, jinja2.TemplateError, or whatever the template stumbles on."""
    sandbox = Sandbox()
    template = Template.from_code(sandbox, _compile(source), sandbox.make_globals(None))
    chunks, chars = [], 0
    for chunk in template.generate(variables):
        chars += len(chunk)
        if chars > MAX_CHARS:
            raise SecurityError(f"writes more than {MAX_CHARS} characters")
        chunks.append(chunk)
    return "".join(chunks)


@lru_cache(maxsize=8)
def _compile(source: str) -> CodeType:
    return Sandbox().compile(source)


def _bounded(value: Any) -> Any:
    """`value`, unless it is too large to be honest."""
    if isinstance(value, (str, list, tuple)) and len(value) > MAX_CHARS:
        raise SecurityError(f"builds a value longer than {MAX_CHARS}")
    return value


def _fits(length: int) -> None:
    if length > MAX_CHARS:
        raise SecurityError(f"builds a value longer than {MAX_CHARS}")


def _held(value: Any) -> Any:
    """`value`, with what an iterator gives in a list: it can be measured and then used."""
    return list(value) if isinstance(value, Iterator) else value


def _concatenated(*values: Any) -> str:
    _fits(sum(map(written, values)))
    return "".join(map(str, values))


def _measured(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, refused where its result may be too long."""
    passed = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def measured(*args: Any, **kwargs: Any) -> Any:
        given = [*args[:passed], *map(_held, args[passed:])]
        _fits(FILTERS[name](*given[passed:], **kwargs))
        return function(*given, **kwargs)

    return measured


def _measured_format(layout: str, function: Callable[..., str]) -> Callable[..., str]:
    @wraps(function)
    def measured(*args: Any, **kwargs: Any) -> str:
        values = (*args, *(args[0].values() if function.__name__ == "format_map" else ()))
        _fits(formatted(layout, *values, **kwargs))
        return function(*args, **kwargs)

    return measured


def _modest(value: Any) -> Any:
    """`value`, unless it is a number that no honest width or count is."""
    if isinstance(value, int) and abs(value) > _WIDE:
        raise SecurityError("calls a function or filter with a huge number")
    return value


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _printf(layout: str, *values: Any) -> str:
    _modest_widths(layout)
    _fits(formatted(layout, *values))
    return layout % values


def _modest_widths(layout: str) -> None:
    if _WIDE_NUMBER.search(layout) or "*" in layout:
        raise SecurityError("formats to a huge width")


def _refuse(message: str) -> NoReturn:
    raise RefusalError(message)


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)
