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
GETS = ("/v1/models", "/health", "/version", "/metrics", "/openapi.json", "/")


@cache
def openapi() -> dict[str, Any]:
    """The whole description."""
    reference = "#/components/schemas/"
    _, schemas = models_json_schema(
        [(body, "validation") for body in POSTS.values()], ref_template=f"{reference}{{model}}"
    )
    paths: dict[str, Any] = {path: {"get": _operation(path)} for path in GETS}
    for path, body in POSTS.items():
        schema = {"$ref": f"{reference}{body.__name__}"}
        content = {"application/json": {"schema": schema}}
        paths[path] = {"post": _operation(path) | {"requestBody": {"content": content}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Paceline", "version": version("paceline")},
        "components": {"schemas": schemas["$defs"]},
        "paths": paths,
    }


def _operation(path: str) -> dict[str, Any]:
    responses = {"200": {"description": "What was asked for."}}
    refusal = {"4XX": {"description": "An error in OpenAI's form, which names what is wrong."}}
    return {
        "operationId": path.strip("/").replace("/", "_") or "page",
        "responses": responses | refusal,
    }
