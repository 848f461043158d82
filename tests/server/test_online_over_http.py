"""`paceline bench online`: a server and an engine in this process under requests that arrive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.cli.main import main
from tests.live_server import Live

SMALL = ["--requests", "3", "--turns", "1", "--max-tokens", "6", "--rate", "50", "--kind", "maths"]


def test_a_server_is_asked_with_drafting_off_and_on(
    server: Live, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "online.md"
    flags = ["--url", server.url, *SMALL, "--json", "--markdown", str(page)]
    assert main(["bench", "online", *flags]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["pattern"], one["rate"]) for one in told["cells"]] == [
        ("poisson", 50),
        ("bursty", 50),
    ]
    for cell in told["cells"]:
        for (only,) in cell["ways"].values():
            assert (only["requests"], only["failed"]) == (3, 0)
            assert only["tokens_per_s"] * only["seconds"] == pytest.approx(18)
    assert told["setting"]["model"] == "mini"
    assert "The server's one controller hears both ways" in page.read_text()
    server.settled()


def test_an_engine_in_this_process(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "online.png"
    flags = [*SMALL, "--arrivals", "bursty", "--slo-ttft-ms", "1e9", "--plot", str(figure)]
    assert main(["bench", "online", *flags, "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert [one["goodput_per_s"] * one["seconds"] for one in cell["ways"]["on"]] == [
        pytest.approx(3)
    ]
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--arrivals", "burst"], "did you mean 'bursty'"),
        (["--rate", "1,x"], "--rate wants numbers"),
        (["--rate", "0"], "positive rate"),
        (["--max-tokens", "1"], "2 or more"),
    ],
)
def test_what_cannot_be_sent(
    flags: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "online", *flags]) == 2
    assert why in capsys.readouterr().err
