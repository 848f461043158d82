"""The API described as OpenAPI 3.1, from the schemas that bodies are held to."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from paceline.server.schemas import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)

POSTS: dict[str, type[BaseModel]] = {
    "/v1/completions": CompletionRequest,
    "/v1/chat/completions": ChatRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}
JSON, STREAM = "application/json", "text/event-stream"
GETS = {
    "/v1/models": JSON,
    "/health": JSON,
    "/version": JSON,
    "/metrics": "text/plain",
    "/openapi.json": JSON,
    "/": "text/html",
}
"""What each of them answers with."""
TEXT = {"type": ["string", "null"]}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": TEXT,
                "code": TEXT,
            },
        }
    },
}


@cache
def openapi() -> dict[str, Any]:
    """The whole description."""
    reference = "#/components/schemas/"
    _, schemas = models_json_schema(
        [(body, "validation") for body in POSTS.values()], ref_template=f"{reference}{{model}}"
    )
    paths: dict[str, Any] = {path: {"get": _operation(path, kind)} for path, kind in GETS.items()}
    for path, body in POSTS.items():
        schema = {"$ref": f"{reference}{body.__name__}"}
        asked = {"content": {JSON: {"schema": schema}}, "required": True}
        kinds = (JSON, STREAM) if "stream" in body.model_fields else (JSON,)
        paths[path] = {"post": _operation(path, *kinds) | {"requestBody": asked}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Paceline", "version": version("paceline")},
        "components": {"schemas": schemas["$defs"] | {"Error": ERROR}},
        "paths": paths,
    }


def _operation(path: str, *kinds: str) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "operationId": path.strip("/").replace("/", "_") or "page",
        "responses": {
            "200": {"description": "What was asked for.", "content": {kind: {} for kind in kinds}},
            "4XX": {"description": "It is not served; the message says why.", "content": error},
            "5XX": {"description": "It failed here, or took too long.", "content": error},
        },
    }
