"""Keys, origins, request ids and the log; what one key's requests teach serves no other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.server.settings import LOOPBACK, ServerConfig
from tests.conftest import PROMPTS
from tests.live_server import Live, live

KEYS = ("key-of-ann", "key-of-bob")
BODY = {"prompt": PROMPTS[1], "temperature": 0, "max_tokens": 24}
COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="module")
def locked(served_llm: LLM) -> Iterator[Live]:
    with live(served_llm, api_keys=KEYS, cors_origins=("https://a.example",)) as server:
        yield server


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/version", "/openapi.json"])
def test_a_key_opens(locked: Live, path: str) -> None:
    for headers in ({}, bearer("wrong"), {"authorization": KEYS[0]}, bearer("é")):
        encoded = {key: value.encode() for key, value in headers.items()}
        reply = locked.http.get(path, headers=encoded)
        assert reply.status_code == 401
        assert reply.json()["error"]["code"] == "invalid_api_key"
    for key in KEYS:
        assert locked.http.get(path, headers=bearer(key)).status_code == 200


def test_health_and_the_page_are_open(locked: Live) -> None:
    assert locked.http.get("/health").status_code == 200
    assert locked.http.get("/").status_code == 200


def accepted(locked: Live, key: str) -> int:
    body: dict[str, Any] = {**BODY, "speculation": {"drafter": "suffix"}}
    reply = locked.http.post(COMPLETIONS, json=body, headers=bearer(key))
    return int(reply.json()["usage"]["speculation"]["accepted"])


def test_what_one_key_wrote_drafts_for_no_other(locked: Live) -> None:
    first, again = accepted(locked, KEYS[0]), accepted(locked, KEYS[0])
    assert again > first
    assert accepted(locked, KEYS[1]) == first


def test_origins(locked: Live, server: Live) -> None:
    for origin, allowed in (("https://a.example", True), ("https://b.example", False)):
        headers = {"origin": origin, **bearer(KEYS[0])}
        reply = locked.http.get("/v1/models", headers=headers)
        assert (reply.headers.get("access-control-allow-origin") == origin) is allowed
        assert not server.http.get("/v1/models", headers=headers).headers.get(
            "access-control-allow-origin"
        )


def test_requests_have_an_id_and_a_line_in_the_log(
    locked: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "paceline.server")
    headers = bearer(KEYS[0]) | {"x-request-id": "mine-1"}
    reply = locked.http.post(COMPLETIONS, json=BODY, headers=headers)
    assert reply.headers["x-request-id"] == "mine-1"
    assert reply.json()["id"] == "cmpl-mine-1"
    bad = locked.http.get("/v1/models", headers=bearer("x") | {"x-request-id": "a b\x7f"})
    assert bad.headers["x-request-id"] != "a b"
    lines = dict[str, Any]()
    while not {"mine-1", bad.headers["x-request-id"]} <= lines.keys():  # written after the reply
        records = [record for record in caplog.records if record.getMessage() == "request"]
        lines = {record.__dict__["request_id"]: record for record in records}
    told = lines["mine-1"]
    assert (told.path, told.status) == (COMPLETIONS, 200)
    assert told.completion_tokens == reply.json()["usage"]["completion_tokens"]
    assert lines[bad.headers["x-request-id"]].status == 401
    everything = repr([vars(record) for record in caplog.records])
    assert not any(secret in everything for secret in (*KEYS, PROMPTS[1][:20], "Bearer"))


def test_the_server_listens_to_itself_alone_unless_told() -> None:
    assert ServerConfig().host == LOOPBACK
    assert "secret" not in repr(ServerConfig(api_keys=("secret",)))
    for bad in ({"api_keys": (" ",)}, {"api_keys": ("ü",)}, {"port": 1 << 16}):
        with pytest.raises(ConfigError):
            ServerConfig(**bad)  # type: ignore[arg-type]


def test_a_page_of_another_origin_cannot_post_in_passing(server: Live) -> None:
    reply = httpx.post(f"{server.url}{COMPLETIONS}", content=b'{"prompt": "x"}')
    assert reply.status_code == 415
