"""Replicas on Ray Serve, which starts them, watches them and replaces what died.

One machine, or the cluster that the variable RAY_ADDRESS names.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.config import RequestRouterConfig
from ray.serve.exceptions import RayServeException
from starlette.types import Message

from paceline.engine.options import LLMOptions
from paceline.server.front import LostError
from paceline.server.journal import log_to_stderr
from paceline.server.replica import Replica, Whole
from paceline.server.settings import ServerConfig

NAME = "paceline"
QUIET = {"log_level": "WARNING", "enable_access_log": False}
ROUTER = "ray.serve.experimental.consistent_hash_router:ConsistentHashRouter"


class Process(Replica):
    """A replica with a process, and so a log, of its own."""

    def __init__(
        self, model: str, drafts: Sequence[str], options: LLMOptions, config: ServerConfig
    ) -> None:
        log_to_stderr()
        super().__init__(model, drafts, options, config)


class Cluster:
    """The replicas of one server."""

    def __init__(self, count: int, at_once: int, drain_timeout_s: float) -> None:
        """`count` replicas, each of which answers `at_once` requests before others get them."""
        self._deployment = serve.deployment(Process).options(
            name=NAME,
            num_replicas=count,
            max_ongoing_requests=at_once,
            graceful_shutdown_timeout_s=drain_timeout_s,
            ray_actor_options={"num_cpus": 0},  # more replicas than cores would wait forever
            request_router_config=RequestRouterConfig(
                request_router_class=ROUTER, request_router_kwargs={"num_fallback_replicas": count}
            ),
            logging_config=QUIET,
        )

    def deploy(
        self, model: str, drafts: Sequence[str], options: LLMOptions, config: ServerConfig
    ) -> None:
        """Start the replicas and wait for them."""
        self._bound = self._deployment.bind(model, drafts, options, config)
        self.roll()

    def roll(self) -> None:
        """Replace the replicas in turn; each ends what it has begun."""
        self._handle = serve.run(self._bound, name=NAME, route_prefix=None)

    async def stream(
        self, key: str, scope: Mapping[str, Any], body: bytes
    ) -> AsyncGenerator[Message, None]:
        """The reply of one replica; raises LostError where it died."""
        ask = self._handle.options(stream=True, session_id=key).stream
        messages = ask.remote(scope, body)
        try:
            async for message in messages:
                yield message
        except (RayError, RayServeException) as error:
            raise LostError from error
        except (asyncio.CancelledError, GeneratorExit):
            messages.cancel()
            raise

    async def everywhere(self, scope: Mapping[str, Any]) -> list[Whole]:
        """The replies of all replicas that live."""
        asked = self._handle.broadcast("whole", scope)
        replies = await asked.results_async(return_exceptions=True)
        return [reply for reply in replies if isinstance(reply, Whole)]


@contextmanager
def running(count: int, at_once: int, config: ServerConfig) -> Iterator[Cluster]:
    """A cluster for the block: Ray's own here, unless RAY_ADDRESS names another."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell others of its use
    own = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
    ray.init(logging_level="WARNING", **own)
    logging.getLogger("ray.serve").setLevel("WARNING")
    try:
        serve.start(proxy_location="Disabled", logging_config=QUIET)
        yield Cluster(count, at_once, config.limits.drain_timeout_s)
    finally:
        serve.shutdown()
        ray.shutdown()
