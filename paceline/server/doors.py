"""What every request passes before it reaches an endpoint: its id, the log, the key."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.metrics.meters import Meters
from paceline.server.failures import ApiError

log = logging.getLogger("paceline.server")
OPEN_PATHS = ("/", "/health")
"""What needs no key: a page without data, and whether the server lives."""
_GIVEN_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Journal:
    """Gives each request an id, and writes one line about it when it has ended."""

    def __init__(self, app: ASGIApp, meters: Meters, paths: Sequence[str]) -> None:
        """Paths that are none of the server's are counted as one."""
        self._app, self._meters, self._paths = app, meters, set(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(12)
        told = scope["paceline"] = {"request_id": request_id, "method": scope["method"]}
        path = scope["path"] if scope["path"] in self._paths else "other"
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._meters.replied(path, status)
            milliseconds = round((time.perf_counter() - began) * 1000, 3)
            log.info("request", extra={**told, "path": path, "status": status, "ms": milliseconds})


class Lock:
    """Lets in who has one of the keys, and notes whose request it is."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request, or answer 401."""
        if scope["type"] != "http" or not self._keys or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        kind, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        key = given.strip().encode()
        # Every key is compared, so that the time tells nothing of which one was near.
        matches = [hmac.compare_digest(key, own) for own in self._keys]
        if kind.lower() != "bearer" or not any(matches):
            headers = {"WWW-Authenticate": "Bearer"}
            refusal = ApiError(401, "Send a valid API key: Authorization: Bearer KEY.",
                               code="invalid_api_key", headers=headers)  # fmt: skip
            await refusal.response()(scope, receive, send)
            return
        scope["paceline"]["owner"] = hashlib.sha256(key).hexdigest()[:12]
        await self._app(scope, receive, send)
