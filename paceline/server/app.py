"""The application: which path does what."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Any, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from paceline.drafters import OFF
from paceline.engine import LLM, AsyncLLM
from paceline.metrics.meters import Meters
from paceline.server import chat, completions
from paceline.server.body import read
from paceline.server.doors import Journal, Lock
from paceline.server.failures import ApiError, told
from paceline.server.gate import Gate
from paceline.server.generation import Generation, Service
from paceline.server.names import DrafterNames
from paceline.server.openapi import openapi
from paceline.server.reply import Reply
from paceline.server.schemas import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)
from paceline.server.settings import ServerConfig

T = TypeVar("T")
Handler = Callable[[Request, Service], Awaitable[Any]]
log = logging.getLogger("paceline.server")


def build_app(llm: LLM, config: ServerConfig) -> Starlette:
    """The ASGI application over a loaded model, whose engine is its own from start to end."""
    names = DrafterNames(llm.config.speculation.drafts)
    meters = Meters(llm.engine, names.name_of)
    gate = Gate(llm.config.scheduler.max_num_requests, config.limits.max_queue)
    model_name = config.model_name or llm.model.name

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        llm.engine.listeners.append(meters.stepped)
        async with AsyncLLM(llm) as engine:
            app.state.service = Service(engine, config, model_name, names, gate, meters)
            yield
        llm.engine.listeners.remove(meters.stepped)

    routes = [
        Route(path, functools.partial(_serve, handler), methods=[method])
        for (method, path), handler in ENDPOINTS.items()
    ]
    doors = [
        Middleware(Journal, meters=meters, paths=[path for _, path in ENDPOINTS]),
        Middleware(Lock, keys=config.api_keys),
    ]
    if config.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=config.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
        doors.insert(1, cors)
    app = Starlette(
        routes=routes,
        middleware=doors,
        lifespan=lifespan,
        exception_handlers={HTTPException: _unknown_path},
    )
    app.state.gate = gate
    return app


async def _serve(handler: Handler, request: Request) -> Response:
    """Run an endpoint; every error has OpenAI's form."""
    service: Service = request.app.state.service
    try:
        response: Response = await handler(request, service)
    except Exception as error:
        known = told(error, ChatRequest.model_fields | CompletionRequest.model_fields)
        if known is None:
            log.exception("bug", extra=request.scope["paceline"])
            known = ApiError(500, "The server failed; its log says why.")
        request.scope["paceline"]["error"] = known.message
        return known.response()
    return response


async def _unknown_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:100]} is not served: {error.detail}."
    return ApiError(error.status_code, message, headers=error.headers or {}).response()


async def complete(request: Request, service: Service) -> Reply:
    """POST /v1/completions."""
    ask = await read(request, CompletionRequest, service.config.limits)
    _check_model(ask.model, service)
    prompts = await asyncio.to_thread(completions.prompts_of, service, ask)
    asked = await asyncio.to_thread(completions.requests_of, service, ask, prompts, _owner(request))
    form = completions.CompletionForm(service, _id(request), ask, prompts)
    return Reply(Generation(service, asked), form)


async def converse(request: Request, service: Service) -> Reply:
    """POST /v1/chat/completions."""
    ask = await read(request, ChatRequest, service.config.limits)
    _check_model(ask.model, service)
    asked = await asyncio.to_thread(chat.requests_of, service, ask, _owner(request))
    return Reply(Generation(service, asked), chat.ChatForm(service, _id(request), ask))


async def tokenize(request: Request, service: Service) -> Response:
    """POST /tokenize."""
    ask = await read(request, TokenizeRequest, service.config.limits)
    _check_model(ask.model, service)
    llm = service.llm.llm

    def ids() -> Sequence[int]:
        if ask.messages is not None:
            return chat.prompt_ids(service, ChatRequest(messages=ask.messages))
        return llm.encode(ask.prompt or "", rendered=not ask.add_special_tokens)

    tokens = await asyncio.to_thread(ids)
    length = llm.engine.max_model_len
    return JSONResponse({"tokens": tokens, "count": len(tokens), "max_model_len": length})


async def detokenize(request: Request, service: Service) -> Response:
    """POST /detokenize."""
    ask = await read(request, DetokenizeRequest, service.config.limits)
    _check_model(ask.model, service)
    llm = service.llm.llm
    size = llm.engine.model.spec.vocab_size
    if any(token >= size for token in ask.tokens):
        raise ApiError(400, f"A token is not in 0 .. {size - 1}.", "tokens")
    text = await asyncio.to_thread(llm.tokenizer.decode, ask.tokens, skip_special=False)
    return JSONResponse({"prompt": text})


async def models(request: Request, service: Service) -> Response:
    """GET /v1/models: the one model, and what a request may ask of it."""
    llm = service.llm.llm
    return JSONResponse(
        {
            "object": "list",
            "data": [
                {
                    "id": service.model_name,
                    "object": "model",
                    "created": _STARTED,
                    "owned_by": "paceline",
                    "max_model_len": llm.engine.max_model_len,
                    "drafters": [*service.names, OFF],
                    "chat": bool(service.config.chat_template) or llm.has_chat_template,
                }
            ],
        }
    )


async def health(request: Request, service: Service) -> Response:
    """GET /health: 200 while the engine's thread lives and requests are taken."""
    service.gate.check_open()
    if not service.llm.is_alive:
        raise ApiError(503, "The engine has stopped; restart the server.")
    return JSONResponse({"status": "ok"})


async def show_version(request: Request, service: Service) -> Response:
    """GET /version."""
    return JSONResponse({"version": version("paceline")})


async def metrics(request: Request, service: Service) -> Response:
    """GET /metrics, for Prometheus."""
    return Response(service.meters.page(), headers={"content-type": CONTENT_TYPE_LATEST})


async def describe(request: Request, service: Service) -> Response:
    """GET /openapi.json."""
    return JSONResponse(openapi())


async def dashboard(request: Request, service: Service) -> Response:
    """GET /: a page that needs nothing from elsewhere, and may ask nothing elsewhere."""
    page = files("paceline.server").joinpath("dashboard.html").read_text(encoding="utf-8")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    policy += "connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
    return HTMLResponse(page, headers={"content-security-policy": policy})


ENDPOINTS: dict[tuple[str, str], Handler] = {
    ("POST", "/v1/completions"): complete,
    ("POST", "/v1/chat/completions"): converse,
    ("GET", "/v1/models"): models,
    ("POST", "/tokenize"): tokenize,
    ("POST", "/detokenize"): detokenize,
    ("GET", "/health"): health,
    ("GET", "/version"): show_version,
    ("GET", "/metrics"): metrics,
    ("GET", "/openapi.json"): describe,
    ("GET", "/"): dashboard,
}
_STARTED = int(time.time())


def _check_model(name: str | None, service: Service) -> None:
    if name not in (None, service.model_name):
        message = f"The model '{str(name)[:100]}' is not served here; '{service.model_name}' is."
        raise ApiError(404, message, "model", "model_not_found")


def _owner(request: Request) -> str:
    owner: str = request.scope["paceline"].get("owner", "")
    return owner


def _id(request: Request) -> str:
    request_id: str = request.scope["paceline"]["request_id"]
    return request_id
