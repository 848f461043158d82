"""`StructuredOutput`: what a request may ask its whole output to be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from paceline.errors import RequestError
from paceline.values import conform


@dataclass(frozen=True, kw_only=True)
class StructuredOutput:
    """What a whole output must be, said in exactly one of five ways; needs paceline[structured].

    Its syntax is checked when a request is added, by the library that reads it.

    Raises:
        RequestError: none or several are given, one is empty, too long or no valid text, or it is
            not JSON whose blanks are disabled.
    """

    json_schema: str | Mapping[str, Any] | None = None
    """A JSON schema, kept as text; properties come in the order in which it names them."""
    json_object: bool = False
    """Any JSON object."""
    regex: str | None = None
    """A regular expression for all of the output, without look-around."""
    choice: tuple[str, ...] = ()
    """One of these strings."""
    grammar: str | None = None
    """A grammar as Lark writes it, with a rule `start`, or as GBNF does, with a rule `root`."""
    disable_any_whitespace: bool = False
    """Write JSON without any blank."""

    LONGEST: ClassVar[int] = 1 << 16
    """Characters; bounds the work a hostile request makes."""

    def __post_init__(self) -> None:
        """Turn the schema into text and `choice` into a tuple; check what needs no library."""
        if isinstance(self.json_schema, Mapping):
            object.__setattr__(self, "json_schema", _dump_schema(self.json_schema))
        choice = conform("choice", self.choice, tuple[str, ...], RequestError)
        object.__setattr__(self, "choice", choice)
        if not all(choice):
            raise RequestError("choice must hold strings that are not empty.")
        kinds = ("json_schema", "json_object", "regex", "choice", "grammar")
        given = [kind for kind in kinds if getattr(self, kind) not in (None, False, ())]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise RequestError(f"Structured output takes one of {', '.join(kinds)}, not {found}.")
        if self.disable_any_whitespace and not given[0].startswith("json"):
            raise RequestError(
                f"disable_any_whitespace is for JSON, not a {given[0]}; leave one of them out."
            )
        source = "".join(self.choice) or getattr(self, given[0])
        if not isinstance(source, str | bool):
            raise RequestError(f"{given[0]} must be a string, not {type(source).__name__}.")
        if isinstance(source, str) and not 0 < len(source) <= self.LONGEST:
            raise RequestError(
                f"{given[0]} has {len(source)} characters; it must have 1 to {self.LONGEST}."
            )
        if isinstance(source, str) and any("\ud800" <= char <= "\udfff" for char in source):
            raise RequestError(f"{given[0]} holds half a surrogate pair; send valid text.")


def _dump_schema(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"json_schema is no JSON: {error}.") from error
