"""Servers that cannot be audited: one sentence says which, and what to do."""

from __future__ import annotations

import socket
import threading

import pytest

from paceline.certify import endpoint
from paceline.certify.endpoint import RefusedError, connect
from paceline.errors import ConfigError, EndpointError
from tests.stub_endpoint import serving


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize(
    ("status", "reply", "told"),
    [
        (400, {"error": {"message": "top_k?"}}, r"refuses the request \(400: top_k\?\)"),
        (422, {"detail": "no ids"}, r"refuses the request \(422: no ids\)"),
        (401, {"error": "key sesame is wrong"}, r"wants another key \(401\); put it in PACELINE"),
        (404, b"nothing here", r"does not exist \(404: nothing here\)"),
        (307, b"", r"answers 307"),
        (429, {"message": "later"}, r"busy \(429: later\)"),
        (500, {"error": {"message": "sesame failed"}}, r"answers 500: … failed"),
        (500, b"[" * 3000, "answers 500"),
        (200, b"<html>", r"\(no JSON\); is the URL right"),
        (200, b"[" * 100_000, "no JSON"),
        (200, {"choices": []}, "no choices with a text"),
        (200, {"choices": [{"message": {}}]}, "no choices with a text"),
        (200, {"choices": [{"text": None}]}, "no choices with a text"),
        (200, [], "no choices with a text"),
    ],
)
def test_what_a_server_answers_is_told(status, reply, told):
    with serving(lambda path, headers, body: (status, reply)) as url:
        found = connect(f"{url}/v1/", "m", "sesame")
        assert found.url == url
        with pytest.raises(EndpointError, match=told) as error:
            found.complete([1], 1)
    assert str(error.value).startswith(f"{url}/v1/completions ")
    assert "sesame" not in f"{error.value} {found}"
    assert isinstance(error.value, RefusedError) == (status in {400, 422})


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, "serves a, b; say which is meant by --served-model"),
        ({"data": []}, "serves no model"),
        ({"models": []}, "no list of models"),
    ],
)
def test_a_model_must_be_known(reply, told):
    with serving(lambda path, headers, body: (200, reply)) as url:
        with pytest.raises(EndpointError, match=told):
            connect(url)
        assert connect(url, "a").model == "a"


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(EndpointError, match=rf":{port}/v1/models cannot be reached .* server up\?"):
        connect(f"http://127.0.0.1:{port}")


def test_whoever_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(endpoint, "TIMEOUT_S", 0.05)
    over = threading.Event()

    def late(path, headers, body):
        over.wait()
        return 200, {}

    with serving(late) as url:
        try:
            with pytest.raises(EndpointError, match=r"did not answer within 0\.05 s"):
                connect(url)
        finally:
            over.set()


def test_a_reply_that_breaks_off():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up():
            with listening.accept()[0] as client:
                client.recv(1 << 16)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(EndpointError, match="cannot be reached"):
            connect(f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread.join()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "", "http://[1"])
def test_what_is_no_url(url):
    with pytest.raises(ConfigError, match="An endpoint is a URL"):
        connect(url)


@pytest.mark.parametrize("url", ["http://u:sesame@h", "http://h/v1?key=sesame"])
def test_a_key_in_a_url_is_refused_and_not_shown(url):
    with pytest.raises(ConfigError, match="PACELINE_ENDPOINT_KEY") as error:
        connect(url)
    assert "sesame" not in str(error.value)
