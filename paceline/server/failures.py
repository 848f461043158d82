"""Errors in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from starlette.responses import JSONResponse

from paceline.errors import ConfigError, EngineError, ModelFileError, RequestError, UnknownNameError

KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
"""Status -> OpenAI's word for it, where it is neither a bad request nor the server's fault."""

_TYPES = frozenset({"str", "int", "float", "bool", "dict", "list"})


@dataclass(eq=False)
class ApiError(Exception):
    """What a client is told when it gets no reply; `param` names the field that is wrong."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The object that OpenAI's clients understand."""
        fault = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": self.message,
                "type": KINDS.get(self.status, fault),
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> JSONResponse:
        """The whole reply."""
        return JSONResponse(self.body(), self.status, dict(self.headers))


def told(error: BaseException, fields: Mapping[str, Any] | None = None) -> ApiError | None:
    """What to tell of an error; `fields` are those a message may begin with. None: a bug."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestError | UnknownNameError | ConfigError | ModelFileError):
        message = error.args[0] if isinstance(error, RequestError) else str(error)
        first = message.split(" ", 1)[0]
        return ApiError(400, message, first if first in (fields or {}) else None)
    if isinstance(error, TimeoutError):
        return ApiError(504, "The request took longer than the server allows.", code="timeout")
    if isinstance(error, EngineError):
        return ApiError(500, str(error), code="engine_error")
    return None


def of_validation(error: ValidationError) -> ApiError:
    """The first thing that is wrong with a body, and where."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    # Of a value that may be several things, the one that was followed farthest was meant.
    first = [p for p in problems if p["loc"][:1] == problems[0]["loc"][:1]]
    depth = max(len(p["loc"]) for p in first)
    nearest = [p for p in first if len(p["loc"]) == depth]
    place = ".".join(str(part) for part in nearest[0]["loc"] if not _is_branch(part)) or None
    kind = nearest[0]["type"]
    if kind == "json_invalid":
        return ApiError(400, f"The body is not JSON: {nearest[0]['msg']}.")
    if kind == "extra_forbidden":
        return ApiError(400, f"'{place}' is not supported.", place, "unsupported_parameter")
    reasons = [p["msg"].removeprefix("Value error, ").rstrip(".") for p in nearest]
    told = ", or ".join(dict.fromkeys(reasons))
    return ApiError(400, f"{place or 'The body'}: {told}.", place, "invalid_value")


def _is_branch(part: str | int) -> bool:
    """Whether a part of a place names an alternative of a union, not a field."""
    return isinstance(part, str) and (part in _TYPES or not part.replace("_", "").isalnum())
