"""A server's life: it listens, serves, and on SIGTERM ends what it has begun."""

from __future__ import annotations

import logging
import signal
import socket
import time
from types import FrameType

import uvicorn
from starlette.applications import Starlette

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


class Server(uvicorn.Server):
    """uvicorn that, asked to stop, goes on answering until what it has begun has ended.

    Meanwhile the application's gate is closed: new requests get 503, and so does /health. Where
    time runs out, or a second signal comes, what is left is cut off.
    """

    _deadline: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Close the gate; what `on_tick` then waits for."""
        gate, now = self._app.state.gate, time.monotonic()
        if gate.closed:
            self._deadline = now
            return
        gate.closed = True
        self._deadline = now + (self.config.timeout_graceful_shutdown or 0)
        log.info("stopping", extra={"outputs": gate.inside})

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; uvicorn asks ten times a second."""
        if self._deadline is not None:
            late = time.monotonic() >= self._deadline
            if late:
                self.config.timeout_graceful_shutdown = 0
            self.should_exit |= late or not self._app.state.gate.inside
        return await super().on_tick(counter)

    @property
    def _app(self) -> Starlette:
        app = self.config.app
        assert isinstance(app, Starlette)
        return app


def build_server(app: Starlette, config: ServerConfig) -> Server:
    """A server of the application; requests are logged by the application itself."""
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
    return Server(settings)


def serve(app: Starlette, config: ServerConfig, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; both let begun replies end, for as long as config says."""
    # uvicorn sends itself the signal again once it is done; by then there is nothing to end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    build_server(app, config).run(sockets=[listening])
    log.info("stopped")
