"""Other engines as processes of their own: servers on loopback, and programs that read lines."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from typing import IO, Any

from paceline.errors import ConfigError

START_S, REPLY_S, END_S = 600.0, 600.0, 10.0
"""How long a program may take to load a model, to answer, and to end when it is told to."""
POLL_S = 0.05


@contextmanager
def running(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Start a program with its stdin and stdout piped and its stderr in a file; end it after.

    Raises:
        ConfigError: it cannot be started.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as told:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        try:
            process = subprocess.Popen(command, **pipes, stderr=told, text=True)
        except OSError as error:
            raise ConfigError(f"Cannot start {command[0]}: {error.strerror}.") from error
        try:
            yield process, told
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """End it, and close its pipes."""
    process.terminate()
    try:
        process.communicate(timeout=END_S)
    except (subprocess.TimeoutExpired, OSError, ValueError):
        process.kill()
        process.wait()


def last_words(told: IO[str]) -> str:
    """The last line of what a program said on stderr."""
    told.seek(0)
    lines = [line.strip() for line in told if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(command: Sequence[str]) -> Iterator[str]:
    """Start a server, wait until /health is well, and end it afterwards; yields its URL.

    Args:
        command: where to listen is added to it.

    Raises:
        ConfigError: it ends, or does not become ready.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as told:
        try:
            process = subprocess.Popen([*command, *where], stdout=told, stderr=told, text=True)
        except OSError as error:
            raise ConfigError(f"Cannot start {command[0]}: {error.strerror}.") from error
        try:
            began = time.monotonic()
            while not is_well(url):
                if process.poll() is not None:
                    raise ConfigError(f"{command[0]} ended: {last_words(told)}")
                if time.monotonic() - began > START_S:
                    raise ConfigError(f"{command[0]} is not ready after {START_S:.0f} s.")
                time.sleep(POLL_S)
            yield url
        finally:
            end(process)


def is_well(url: str) -> bool:
    """Whether a server has loaded its model."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=REPLY_S) as reply:
            return bool(reply.status == 200)
    except (OSError, HTTPException):
        return False


def post(url: str, body: Any) -> Any:
    """The reply to a JSON body; raises ConfigError."""
    data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
    asked = urllib.request.Request(url, data, kind)
    try:
        with urllib.request.urlopen(asked, timeout=REPLY_S) as reply:
            return json.loads(reply.read())
    except (OSError, HTTPException, ValueError) as error:
        raise ConfigError(f"{url} does not answer as it should: {error}.") from error
