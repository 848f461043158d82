"""Load, small: what `paceline bench serve --rough` does for minutes, for a few seconds here."""

from __future__ import annotations

import json

import pytest

from paceline.cli.main import main
from tests.live_server import Live


def test_rough_clients_get_what_they_should(
    server: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--url", server.url, "--clients", "12", "--requests", "30", "--rough", "--json"]
    code = main(["bench", "serve", *flags])
    told = json.loads(capsys.readouterr().out)
    assert told["wrong"] == []
    assert (code, told["blocks_left"]) == (0, 0)
    assert {"refused", "left", "streamed", "whole", "reference"} <= set(told["outcomes"])
    assert told["between_events_ms"]["p99"] > 0
    server.settled()


def test_smooth_clients_are_counted(server: Live, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--url", server.url, "--clients", "4", "--requests", "4"]
    assert main(["bench", "serve", *flags]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert told["outcomes"] == "{'served': 4}"
    assert int(told["tokens"]) > 0
    assert main(["bench", "serve", "--seconds", "1", "--requests", "1"]) == 2
    assert main(["bench", "serve", "--url", "http://127.0.0.1:1"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_wrong_text_is_told(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.bench.online.PLAIN", {"enabled": True})
    monkeypatch.setattr("paceline.bench.online.SETTINGS", ({"temperature": 1.5},))
    flags = ["--url", server.url, "--clients", "4", "--requests", "16", "--rough"]
    assert main(["bench", "serve", *flags]) == 1


@pytest.mark.parametrize(
    "url", ["nonsense", "", "http://", "http://[::bad", "http://127.0.0.1:99999", "https://host"]
)
def test_what_is_no_address_is_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["bench", "serve"], ["bench", "online", "--rate", "2"]):
        assert main([*command, "--url", url]) == 2
        assert "is no address; say --url http://HOST:PORT." in capsys.readouterr().err
