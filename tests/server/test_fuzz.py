"""Bodies drawn from the server's own OpenAPI description, and spoilt ones: never a 5xx."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.server.openapi import POSTS, openapi
from tests.live_server import Live

SCHEMAS = openapi()["components"]["schemas"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
SMALL: dict[str, Any] = {"max_tokens": 3, "max_completion_tokens": 3, "n": 2, "best_of": 2}
"""What a valid request might ask too much of for a test."""
NAMES = ("model", "mini", "ngram", "none", "coupled", "token", "block", "auto", "x")


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What a schema allows, mostly: formats and patterns are left to chance."""
    if "$ref" in schema:
        return st.deferred(lambda: values(SCHEMAS[schema["$ref"].rpartition("/")[2]]))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of(*map(values, schema[key]))
    return BY_TYPE.get(schema.get("type", ""), lambda _: JUNK)(schema)


def integers(schema: dict[str, Any]) -> st.SearchStrategy[int]:
    least = schema.get("minimum", -2)
    return st.integers(least, min(schema.get("maximum", 8), 8))


def arrays(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.lists(values(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3)


def objects(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    fields = schema.get("properties")
    if fields is None:
        inner = schema.get("additionalProperties")
        return st.dictionaries(
            st.text("01 a", max_size=3),
            values(inner if isinstance(inner, dict) else {}),
            max_size=3,
        )
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: values(fields[name]) for name in required},
        optional={name: values(field) for name, field in fields.items() if name not in required},
    )


BY_TYPE: dict[str, Any] = {
    "null": lambda _: st.none(),
    "boolean": lambda _: st.booleans(),
    "integer": integers,
    "number": lambda _: st.floats(-0.5, 2) | st.just(1),
    "string": lambda _: st.sampled_from(NAMES) | st.text(max_size=8),
    "array": arrays,
    "object": objects,
}


@st.composite
def bodies(draw: st.DrawFn, path: str) -> Any:
    """A body of few fields, one of which may be spoilt."""
    body = draw(values(SCHEMAS[POSTS[path].__name__]))
    required = SCHEMAS[POSTS[path].__name__].get("required", [])
    kept = draw(st.sets(st.sampled_from(sorted(body)), max_size=6)) if body else set()
    body = {name: body[name] for name in (*required, *kept)}
    body.pop("model", None)
    body |= {name: SMALL[name] for name in SMALL if name in body}
    if "completions" in path and "max_tokens" not in body:
        body["max_tokens"] = 3
        body.pop("max_completion_tokens", None)
    if body and draw(st.integers(0, 3)) == 0:
        body[draw(st.sampled_from(sorted(body)))] = draw(JUNK)
    return body


@pytest.mark.parametrize("path", POSTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_no_body_breaks_the_server(server: Live, path: str, data: st.DataObject) -> None:
    content = json.dumps(data.draw(bodies(path))).encode()
    headers = {"content-type": "application/json"}
    reply = server.http.post(path, content=content, headers=headers)
    assert reply.status_code in (200, 400, 404), reply.text
    if reply.status_code != 200:
        jsonschema.validate(reply.json(), SCHEMAS["Error"])
    elif reply.headers["content-type"].startswith("text/event-stream"):
        assert reply.text.endswith("data: [DONE]\n\n")
    server.settled()


def test_the_description_is_served(server: Live) -> None:
    told = server.http.get("/openapi.json").json()
    assert told == openapi()
    served = {path for route in server.app.routes for path in [route.path]}
    assert set(told["paths"]) == served
