"""A server on loopback that answers what it is told to, or samples of a law."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from paceline.certify.forced import JointLaw
from paceline.models import Tokenizer

Answer = Callable[[str, dict[str, str], Any], tuple[int, Any]]
"""(path, headers, body) -> (status, the reply: JSON, or bytes as they are)."""


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve until the block ends; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(None)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self.reply(json.loads(self.rfile.read(length)))

        def reply(self, body: Any) -> None:
            status, found = answer(self.path, dict(self.headers), body)
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if status in {301, 307}:
                self.send_header("Location", "/v1/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *of: Any) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Sampler:
    """Answers with draws of a joint law, as text; remembers what it was asked."""

    law: JointLaw
    tokenizer: Tokenizer
    seed: int = 1
    most: int = 64
    """A larger n is refused."""
    key: str | None = None
    asked: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def __call__(self, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        if self.key and headers.get("Authorization") != f"Bearer {self.key}":
            return 401, {"error": {"message": f"Incorrect key: {headers['Authorization']}"}}
        if path == "/v1/models":
            return 200, {"data": [{"id": "stub"}]}
        self.asked.append(body)
        if body["n"] > self.most:
            return 400, {"error": {"message": f"n must be at most {self.most}"}}
        drawn = self._random.choice(len(self.law.probs), body["n"], p=self.law.probs)
        texts = [self.tokenizer.decode(self.law.tokens[output].tolist()) for output in drawn]
        return 200, {"choices": [{"text": text} for text in texts]}
