"""What is refused, and how: one sentence, before anything runs, whatever the size."""

from __future__ import annotations

import sys

import pytest

from paceline.errors import RequestError
from paceline.sampling.grammar import Grammars
from paceline.structured import StructuredOutput
from tests.grammars import EOS, TOKENIZER, V, allowed, grammars, matcher


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "takes one of .*, not none"),
        ({"regex": "a", "json_object": True}, "not json_object and regex"),
        ({"choice": ["a", ""]}, "not empty"),
        ({"choice": [3]}, "strings"),
        ({"regex": 3}, "regex must be a string, not int"),
        ({"json_schema": {"const": {1, 2}}}, "json_schema is no JSON"),
        ({"json_schema": {"const": float("nan")}}, "json_schema is no JSON"),
        ({"regex": ""}, "regex has 0 characters"),
        ({"grammar": "a" * 70_000}, "grammar has 70000 characters"),
        ({"choice": ["a" * 40_000, "b" * 40_000]}, "choice has 80000 characters"),
        ({"regex": "\ud800"}, "half a surrogate pair"),
        *(
            ({**kind, "disable_any_whitespace": True}, "disable_any_whitespace is for JSON, not a")
            for kind in ({"regex": "a b"}, {"choice": ["a b"]}, {"grammar": 'start: "a b"'})
        ),
    ],
)
def test_refused_without_the_library(settings, message):
    with pytest.raises(RequestError, match=message):
        StructuredOutput(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regex": "a("}, "The regex cannot be used: unclosed group"),
        ({"regex": "(?=a)b"}, "The regex cannot be used: look-around"),
        ({"json_schema": "{"}, "The JSON schema cannot be used: "),
        ({"json_schema": {"type": "no such"}}, "The JSON schema cannot be used: "),
        ({"json_schema": {"not": {}}}, "The JSON schema cannot be used: .*not"),
        ({"json_schema": {"$ref": "https://example.org/s"}}, "The JSON schema cannot be used: "),
        ({"json_schema": {"$ref": "#"}}, "it matches no text"),
        ({"json_schema": '{"items":' * 5000 + "{}" + "}" * 5000}, "The JSON schema cannot be used"),
        ({"grammar": "start: nowhere"}, "The grammar cannot be used: "),
        ({"grammar": "root ::= " + "(" * 9000 + '"a"' + ")" * 9000}, "The grammar cannot be used"),
        ({"grammar": "start: " + "(" * 9000 + '"a"' + ")" * 9000}, "The grammar cannot be used"),
        ({"grammar": "start: A & B\nA: /a/\nB: /b/"}, "The grammar cannot be used: "),
        ({"regex": "[^\\x00-\\x{10FFFF}]"}, "The regex cannot be used: it matches no text"),
    ],
)
def test_refused_by_the_library(settings, message):
    with pytest.raises(RequestError, match=message) as refused:
        grammars().compile(StructuredOutput(**settings))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_an_unknown_keyword_is_refused_even_if_the_schema_asks_to_ignore_it():
    schema = {"type": "string", "contentEncoding": "x", "uniqueItems": True, "dependentSchemas": {}}
    with pytest.raises(RequestError):
        grammars().compile(
            StructuredOutput(json_schema={**schema, "x-guidance": {"lenient": True}})
        )


def test_rules_as_deep_as_a_request_can_hold_do_no_harm():
    """The library follows them by recursion, which would overflow the usual stack."""
    rules = "".join(f"a{i}: a{i + 1}\n" for i in range(5000))
    spec = StructuredOutput(grammar=f'start: a0\n{rules}a5000: "x"\n')
    assert matcher(spec).forced(1) == tuple(TOKENIZER.encode("x"))


def test_json_object_is_an_object():
    first = {
        TOKENIZER.token_bytes(i)[:1] for i in allowed(matcher(StructuredOutput(json_object=True)))
    }
    assert first == {b"{"}


def test_blanks_in_json_can_be_forbidden():
    ids = TOKENIZER.encode("{ ")
    spec = StructuredOutput(json_object=True)
    assert grammars().compile(spec).matcher(ids[:1]).allows((), TOKENIZER.encode(" ")[0])
    compact = StructuredOutput(json_object=True, disable_any_whitespace=True)
    assert not matcher(compact, tuple(TOKENIZER.encode("{"))).allows((), TOKENIZER.encode(" ")[0])


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(RequestError, match=r"paceline\[structured\]"):
        Grammars(TOKENIZER, V, [EOS]).compile(StructuredOutput(json_object=True))


def test_a_model_that_never_ends_a_text_is_refused():
    with pytest.raises(RequestError, match="ends a text"):
        Grammars(TOKENIZER, V, []).compile(StructuredOutput(json_object=True))
