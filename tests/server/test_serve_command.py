"""`paceline serve` as a process: SIGTERM lets what it has begun end, then it stops."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import httpx
import pytest

from paceline.cli.main import main
from paceline.engine import LLM
from paceline.types import SamplingParams
from tests.conftest import PROMPTS

COMPLETIONS = "/v1/completions"


class Serving(subprocess.Popen[str]):
    """The command at work."""

    stderr: IO[str]


@pytest.fixture
def process() -> Iterator[Serving]:
    command = [sys.executable, "-m", "paceline", "serve", "--port", "0", "--token-events"]
    with Serving(command, stderr=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def address(process: Serving) -> str:
    """What the command says first."""
    told = re.fullmatch(r"Serving mini on (http://127\.0\.0\.1:\d+)\n", process.stderr.readline())
    assert told is not None
    return told[1]


def streamed(http: httpx.Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a whole stream."""
    reply = http.post(COMPLETIONS, json=body | {"stream": True})
    events = reply.text.removesuffix("\n\n").split("\n\n")
    assert (reply.status_code, events[-1]) == (200, "data: [DONE]")
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def taken(http: httpx.Client) -> float:
    """Outputs that the server runs, holds waiting or has ended."""
    lines = http.get("/metrics").text.splitlines()
    counted = "paceline_requests_running", "paceline_requests_waiting", "paceline_outputs_total"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(counted))


def test_sigterm_in_mid_load_loses_nothing_that_was_taken(process: Serving, mini: LLM) -> None:
    """25 streams, more than run at once, come to their ends; who comes later is told why not."""
    greedy: dict[str, Any] = {"temperature": 0.0, "max_tokens": 48, "ignore_eos": True}
    settings = [greedy, greedy | {"temperature": 0.9, "seed": 3}]
    cases = [(prompt, setting) for prompt in PROMPTS[:3] for setting in settings] * 4
    cases.append((PROMPTS[0], greedy | {"max_tokens": 600}))
    bodies = [{"prompt": prompt, **setting} for prompt, setting in cases]
    limits = httpx.Limits(max_connections=64)
    url, entries = address(process), map(json.loads, process.stderr)
    with (
        httpx.Client(base_url=url, timeout=60, limits=limits) as http,
        ThreadPoolExecutor(len(bodies)) as pool,
    ):
        replies = [pool.submit(streamed, http, body) for body in bodies]
        while taken(http) < len(bodies):
            assert not any(reply.done() and reply.exception() for reply in replies)
        process.send_signal(signal.SIGTERM)
        log = [next(entries)]
        while log[-1]["event"] != "stopping":
            log.append(next(entries))
        late = http.post(COMPLETIONS, json={"prompt": "x", "max_tokens": 1})
        assert late.status_code == 503
        assert late.json()["error"]["code"] == "stopping"
        assert int(late.headers["retry-after"]) >= 1
        assert http.get("/health").status_code == 503
        whole = [reply.result() for reply in replies]
    log += entries
    assert (process.wait(30), log[-1]["event"]) == (0, "stopped")
    for (prompt, setting), chunks in zip(cases, whole, strict=True):
        (expected,) = mini.generate(prompt, SamplingParams(**setting))
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == expected.text
        assert all(len(chunk["choices"][0].get("tokens", [0])) == 1 for chunk in chunks)
    ended = [entry for entry in log if entry.get("completion_tokens")]
    assert sorted(entry["completion_tokens"] for entry in ended) == [48] * 24 + [600]


def test_a_second_signal_does_not_wait(process: Serving) -> None:
    endless = {"prompt": "x", "temperature": 0, "max_tokens": 1000, "ignore_eos": True, "n": 16}
    with httpx.stream(
        "POST", address(process) + COMPLETIONS, json=endless | {"stream": True}, timeout=60
    ) as reply:
        lines = filter(None, reply.iter_lines())
        next(lines)
        process.send_signal(signal.SIGTERM)
        while json.loads(process.stderr.readline())["event"] != "stopping":
            pass
        process.send_signal(signal.SIGTERM)
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--host", "256.1.1.1"], "Cannot listen on 256.1.1.1:8000"),
        (["--api-key", " "], "An API key must be printable ASCII"),
        (["--chat-template", "nowhere.jinja"], "Cannot read nowhere.jinja"),
        (["--draft", "medusa-none", "--port", "0"], "Unknown drafter 'medusa-none'"),
    ],
)
def test_what_cannot_work_fails_at_once(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *flags]) == 2
    assert message in capsys.readouterr().err


def test_without_the_extra_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("paceline.cli.serve.NEEDED", ("starlette", "no_such_module"))
    assert main(["serve"]) == 2
    assert "The server needs no_such_module; pip install 'paceline[server]'." in (
        capsys.readouterr().err
    )
