"""`paceline serve --replicas 2` on Ray Serve: two of mini here, one killed, all replaced."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import count
from typing import IO, Any

import httpx
import pytest

from paceline.engine import LLM
from paceline.types import SamplingParams
from tests.conftest import PROMPTS

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None, reason="needs paceline[cluster]; make cluster installs it"
)
COMPLETIONS = "/v1/completions"
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 24}
KEY = {"authorization": "Bearer one-key"}


class Serving(subprocess.Popen[str]):
    """The command at work, its log read as it comes."""

    stderr: IO[str]

    def begin(self) -> str:
        """Wait until it serves; its address."""
        told = next(line for line in self.stderr if line.startswith("Serving"))
        self.log: list[str] = []
        threading.Thread(target=lambda: self.log.extend(self.stderr), daemon=True).start()
        return re.findall(r"http://\S+", told)[0]


@pytest.fixture(scope="module")
def process() -> Iterator[Serving]:
    command = [sys.executable, "-m", "paceline", "serve", "--port", "0", "--replicas", "2"]
    settings = {**os.environ, "PACELINE_API_KEYS": "one-key other-key"}
    with Serving(command, stderr=subprocess.PIPE, text=True, env=settings) as running:
        yield running
        running.kill()


@pytest.fixture(scope="module")
def http(process: Serving) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=64)
    address = process.begin()
    with httpx.Client(base_url=address, headers=KEY, timeout=120, limits=limits) as client:
        yield client


@pytest.fixture(scope="module")
def expected(mini: LLM) -> dict[str, str]:
    params = SamplingParams(**GREEDY)
    return {prompt: mini.generate(prompt, params)[0].text for prompt in PROMPTS}


def series(http: httpx.Client, name: str) -> dict[str, float]:
    """A metric of each replica."""
    page = http.get("/metrics").text
    found = re.findall(rf'^{name}{{replica="([^"]*)"[^}}]*}} (\S+)$', page, re.MULTILINE)
    return {replica: float(value) for replica, value in found}


def text_of(reply: httpx.Response) -> str:
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["text"])


def ask(http: httpx.Client, prompt: str, **body: Any) -> httpx.Response:
    return http.post(COMPLETIONS, json={"prompt": prompt, **GREEDY, **body})


class Load:
    """Clients that ask without a pause until they are told to stop, and hold every text to its
    reference.
    """

    def __init__(self, http: httpx.Client, expected: dict[str, str], clients: int = 4) -> None:
        self._http, self._expected, self._over = http, expected, threading.Event()
        self.served: list[str] = []
        self._numbers = count()
        self._pool = ThreadPoolExecutor(clients)
        self._clients = [self._pool.submit(self._run) for _ in range(clients)]

    def _run(self) -> None:
        while not self._over.is_set():
            prompt = PROMPTS[next(self._numbers) % len(PROMPTS)]
            assert text_of(ask(self._http, prompt)) == self._expected[prompt]
            self.served.append(prompt)

    def check(self) -> None:
        """Raise what a client found wrong."""
        for client in self._clients:
            if client.done():
                client.result()

    def until(self, number: int) -> None:
        """Wait for so many replies."""
        while len(self.served) < number:
            self.check()

    def end(self) -> None:
        """Let the clients finish."""
        self._over.set()
        for client in self._clients:
            client.result()
        self._pool.shutdown()


def test_a_cluster_answers_as_one_server(http: httpx.Client, expected: dict[str, str]) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/v1/models").json()["data"][0]["id"] == "mini"
    assert http.get("/").text.startswith("<!doctype html>")
    assert http.get("/metrics", headers={"authorization": "x"}).status_code == 401
    asked = {**GREEDY, "prompt": PROMPTS[1], "stream": True}
    with http.stream("POST", COMPLETIONS, json=asked) as s:
        *events, done = [line.removeprefix("data: ") for line in s.iter_lines() if line]
    assert done == "[DONE]"
    text = "".join(json.loads(event)["choices"][0]["text"] for event in events)
    assert text == expected[PROMPTS[1]]
    assert ask(http, "x", no_such_field=1).status_code == 400


def test_what_begins_alike_goes_to_the_same_replica(http: httpx.Client) -> None:
    """Eight prompts that differ behind their beginning: one replica reads the beginning once."""
    before = series(http, "paceline_prefix_hit_tokens_total")
    assert len(before) == 2
    beginning = "import os\n\n" * 30
    cached = [
        ask(http, f"{beginning}x = {number}\n").json()["usage"]["prompt_tokens_details"]
        for number in range(8)
    ]
    after = series(http, "paceline_prefix_hit_tokens_total")
    grown = [after[name] - before[name] for name in before]
    assert sorted(grown)[0] == 0
    assert sum(grown) == sum(told["cached_tokens"] for told in cached) > 7 * 64


def test_who_finds_no_room_goes_to_the_other(http: httpx.Client) -> None:
    before = series(http, "paceline_outputs_total")
    body = {"ignore_eos": True, "max_tokens": 64}
    with ThreadPoolExecutor(32) as pool:
        replies = [*pool.map(lambda _: ask(http, PROMPTS[0], **body), range(32))]
    assert len({text_of(reply) for reply in replies}) == 1
    after = series(http, "paceline_outputs_total")
    assert all(after[name] > before.get(name, 0) for name in after)
    assert len(after) == 2


def test_a_client_that_goes_frees_its_replica(http: httpx.Client) -> None:
    body = {**GREEDY, "max_tokens": 900, "ignore_eos": True, "stream": True, "prompt": PROMPTS[0]}
    with http.stream("POST", COMPLETIONS, json=body) as reply:
        next(reply.iter_lines())
    aborted = r'^paceline_outputs_total{replica="[^"]*",finish_reason="abort"} 1.0$'
    while not re.search(aborted, http.get("/metrics").text, re.MULTILINE):
        pass
    while any(series(http, "paceline_kv_blocks_used").values()):
        pass


def test_a_replica_that_is_killed_fails_no_new_request(
    http: httpx.Client, expected: dict[str, str]
) -> None:
    before, load = series(http, "paceline_steps_total"), Load(http, expected)
    load.until(30)
    steps = series(http, "paceline_steps_total")
    victim = max(before, key=lambda name: steps[name] - before[name])
    assert steps[victim] > before[victim]
    os.kill(int(victim.rpartition("-")[2]), signal.SIGKILL)
    while len(set(series(http, "paceline_steps_total")) - {victim}) < 2:
        load.check()
    load.until(len(load.served) + 30)
    load.end()
    assert victim not in series(http, "paceline_steps_total")


def test_a_hangup_replaces_all_in_turn_and_fails_no_request(
    process: Serving, http: httpx.Client, expected: dict[str, str]
) -> None:
    old, load = set(series(http, "paceline_steps_total")), Load(http, expected)
    process.send_signal(signal.SIGHUP)
    seen = [old]
    while len(seen[-1]) < 2 or seen[-1] & old:
        load.check()
        seen.append(set(series(http, "paceline_steps_total")))
        assert seen[-1], "for a moment no replica was up"
    load.until(len(load.served) + 30)
    load.end()


def test_sigterm_ends_it_all(process: Serving, http: httpx.Client) -> None:
    """The last test: what was begun ends, then no replica is left."""
    replicas = [int(name.rpartition("-")[2]) for name in series(http, "paceline_steps_total")]
    body = {"prompt": PROMPTS[0], **GREEDY, "max_tokens": 400, "ignore_eos": True, "stream": True}
    with http.stream("POST", COMPLETIONS, json=body) as reply:
        lines = filter(None, reply.iter_lines())
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert [*lines][-1] == "data: [DONE]"
    assert process.wait(60) == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in replicas)
