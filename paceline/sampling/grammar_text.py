"""A request's StructuredOutput as llguidance's own grammar, and its complaints as one sentence."""

from __future__ import annotations

import json

from paceline.errors import RequestError
from paceline.sampling.spelling import library
from paceline.structured import StructuredOutput

_LONGEST_COMPLAINT = 200
"""Characters of what the library says that are passed on."""


def grammar_text(spec: StructuredOutput) -> str:
    """What llguidance compiles; raises RequestError where it cannot even be read."""
    matcher = library().LLMatcher
    try:
        if spec.regex is not None:
            text = matcher.grammar_from_regex(spec.regex)
        elif spec.choice:
            choices = " | ".join(map(_quoted, spec.choice))
            text = matcher.grammar_from_lark(f"start: {choices}")
        elif spec.grammar is not None:
            text = library().grammar_from("grammar", spec.grammar)
        else:
            schema = '{"type": "object"}' if spec.json_object else str(spec.json_schema)
            text = matcher.grammar_from_json_schema(schema, overrides=_json_options(spec))
    except (ValueError, RecursionError) as error:
        raise unusable(spec, str(error)) from error
    return str(text)


def _quoted(text: str) -> str:
    """A string as Lark writes it; its reader takes no bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def unusable(spec: StructuredOutput, complaint: str) -> RequestError:
    """The error for a spec that the library refuses, with the line that says why."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()] or ["refused"]
    reason = next((line for line in lines if line.startswith("error:")), lines[0])
    reason = reason.removeprefix("error:").strip().rstrip(".:")
    return RequestError(f"The {_kind(spec)} cannot be used: {reason[:_LONGEST_COMPLAINT]}.")


def _kind(spec: StructuredOutput) -> str:
    kinds = ("regex", "choice", "grammar")
    return next((kind for kind in kinds if getattr(spec, kind)), "JSON schema")


def _json_options(spec: StructuredOutput) -> dict[str, bool]:
    """A keyword the library does not know is an error, never ignored."""
    compact = {"whitespace_flexible": False} if spec.disable_any_whitespace else {}
    return {"lenient": False, **compact}
