"""The curl lines and the Python of docs/server.md and of the README run against a live server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ALL_DRAFTS
from tests.live_server import Live, live

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "server.md"]
LINES = [
    line
    for page in PAGES
    for line in re.findall(r"^curl .*$", page.read_text(), re.MULTILINE)
]  # fmt: skip
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def server(build):
    with live(build(*ALL_DRAFTS)) as running:
        yield running


def test_there_are_lines():
    assert len(LINES) >= 5


@pytest.mark.parametrize("line", LINES)
def test_curl(server: Live, line: str):
    words = shlex.split(line)
    url = next(word for word in words if word.startswith(ADDRESS))
    headers = [words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H"]
    data = [words[i + 1] for i, word in enumerate(words) if word == "-d"]
    method = "POST" if data else "GET"
    path = url.removeprefix(ADDRESS)
    reply = server.http.request(method, path, headers=headers, content="".join(data))
    assert reply.status_code == 200, reply.text
    assert reply.text


def test_python(server: Live, capsys, mini):
    first, second = re.findall(r"```python\n(.*?)```", PAGES[1].read_text(), re.DOTALL)
    exec(compile(first.replace(ADDRESS, server.url.rstrip("/")), "server.md", "exec"), {})
    assert capsys.readouterr().out.strip()
    exec(compile(second, "server.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 2
