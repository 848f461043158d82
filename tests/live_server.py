"""A server on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from paceline.engine import LLM
from paceline.server.app import build_app
from paceline.server.run import bind, build_server
from paceline.server.settings import ServerConfig

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}<|im_start|>assistant\n"
)
"""The embedded model has no chat template; with this one it answers, if not to the point."""


@dataclass
class Live:
    """A running server and a client of it."""

    llm: LLM
    http: httpx.Client
    app: Any

    @property
    def url(self) -> str:
        return str(self.http.base_url)

    def post(self, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
        """The reply's object."""
        reply = self.http.post(path, json=body)
        assert reply.status_code == status, reply.text
        return reply.json()

    def events(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """The objects of a stream, which must end with [DONE]."""
        with self.http.stream("POST", path, json={**body, "stream": True}) as reply:
            assert reply.status_code == 200, reply.read()
            lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def refused(self, path: str, status: int = 400, **body: Any) -> dict[str, Any]:
        """The error of a request that is not taken."""
        return self.post(path, status, **body)["error"]

    def metrics(self) -> dict[str, float]:
        """Every series of the metrics page and its value."""
        lines = self.http.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def settled(self) -> None:
        """Nothing runs, nothing waits, no block is held."""
        service = self.app.state.service
        assert service.gate.inside == 0
        asyncio.run(service.llm.call(lambda: None))  # aborts that were asked for come first
        self.llm.engine.pool.check_idle()


@contextmanager
def live(llm: LLM, **config: Any) -> Iterator[Live]:
    """Serve until the block ends. The socket listens from the start, so nobody has to wait."""
    settings = ServerConfig(**{"port": 0, "model_name": "mini", "chat_template": CHATML, **config})
    listening, app = bind(settings), build_app(llm, settings)
    host, port = listening.getsockname()[:2]
    server = build_server(app, settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=60) as http:
            yield Live(llm, http, app)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
