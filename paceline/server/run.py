"""A server's life: it listens, serves, and on SIGTERM ends what it has begun."""

from __future__ import annotations

import logging
import signal
import socket

import uvicorn
from starlette.types import ASGIApp

from paceline.errors import ConfigError
from paceline.server.settings import ServerConfig

log = logging.getLogger("paceline.server")


def bind(config: ServerConfig) -> socket.socket:
    """The listening socket; raises ConfigError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"Cannot listen on {config.host}:{config.port}: {reason}.") from error


def build_server(app: ASGIApp, config: ServerConfig) -> uvicorn.Server:
    """uvicorn over the application; requests are logged by the application itself."""
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=int(config.limits.drain_timeout_s) or 1,
    )
    return uvicorn.Server(settings)


def serve(app: ASGIApp, config: ServerConfig, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; both let begun replies end, for as long as config says."""
    # uvicorn sends itself the signal again once it is done; by then there is nothing to end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    build_server(app, config).run(sockets=[listening])
    log.info("stopped")
