"""Reading a request's body: bounded in size and time, held to its schema."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from paceline.server.failures import ApiError, of_validation
from paceline.server.settings import Limits

B = TypeVar("B", bound=BaseModel)


async def read(request: Request, schema: type[B], limits: Limits) -> B:
    """The body as a `schema`; raises ApiError 415, 400, or as `collect` does."""
    # A page in a browser cannot send this type to another origin without asking first.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "Send the body with Content-Type: application/json.")
    body = await collect(request, limits)
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise of_validation(error) from error


async def collect(request: Request, limits: Limits) -> bytes:
    """The whole body; raises ApiError 400, 408 or 413."""
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            return await _bounded(request, limits.max_body_bytes)
    except TimeoutError as error:
        raise ApiError(408, "The body took too long to arrive.") from error
    except ClientDisconnect as error:
        raise ApiError(400, "The client went before its body had arrived.") from error


async def _bounded(request: Request, most: int) -> bytes:
    too_large = ApiError(413, f"The body is larger than {most} bytes.")
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > most:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large
        parts.append(part)
    return b"".join(parts)
