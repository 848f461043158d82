"""`paceline serve` as a process: SIGTERM mid-stream lets the reply end, then the server stops."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from paceline.cli.main import main
from paceline.engine import LLM
from paceline.types import SamplingParams
from tests.conftest import PROMPTS


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "paceline", "serve", "--port", "0", "--token-events"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def test_sigterm_drains(process: subprocess.Popen[str], mini: LLM) -> None:
    assert process.stderr is not None
    told = re.fullmatch(r"Serving mini on (http://127\.0\.0\.1:\d+)\n", process.stderr.readline())
    assert told is not None
    body = {
        "prompt": PROMPTS[0],
        "temperature": 0,
        "max_tokens": 200,
        "ignore_eos": True,
        "stream": True,
    }
    with httpx.stream("POST", f"{told[1]}/v1/completions", json=body, timeout=60) as reply:
        lines = reply.iter_lines()
        events = [next(lines)]
        process.send_signal(signal.SIGTERM)
        events += [line for line in lines if line]
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in events[:-1]]
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    params = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True)
    assert text == mini.generate(PROMPTS[0], params)[0].text
    assert all(len(chunk["choices"][0].get("tokens", [0])) == 1 for chunk in chunks)
    log = [json.loads(line) for line in process.stderr]
    assert process.wait(30) == 0
    (line,) = [entry for entry in log if entry["event"] == "request"]
    assert (line["status"], line["completion_tokens"]) == (200, 200)
    assert log[-1]["event"] == "stopped"


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
