"""`paceline bench peers` in tokens per second, against a stub of llama-server."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.stub_engine import write_stub


@pytest.fixture
def file_of(monkeypatch, tmp_path):
    """The session's model for every load, as if it lay in a GGUF file."""

    def give(mini) -> str:
        program = str(write_stub(tmp_path))
        monkeypatch.setattr("paceline.cli.bench_peers.load", lambda *args, **settings: mini)
        found = replace(mini.model, path=tmp_path / "mini.gguf")
        monkeypatch.setattr(mini, "model", found)
        return program

    return give


def test_a_table_of_ratios_and_the_files(cli, mini, file_of, tmp_path):
    program = file_of(mini)
    page, figure = tmp_path / "peers.md", tmp_path / "peers.png"
    ran = cli(
        *("bench", "peers", "--model", "mini", "--engine", "llama.cpp", "--bin", program),
        *("--kind", "chat", "--turns", "2", "--max-tokens", "6", "--json"),
        *("--markdown", str(page), "--plot", str(figure)),
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["setting"]["others"] == ["llama.cpp: version: 4321 (stub)"]
    assert [(one["kind"], one["engine"]) for one in found["ratios"]] == [("chat", "llama.cpp")]
    assert found["ratios"][0]["peer_tokens_per_s"] == pytest.approx(100)
    assert set(found["skipped"]) == {"llama.cpp, ngram-simple"}
    assert [len(own["chat"]) for own in found["tokens_per_s"].values()] == [2] * 7
    text = page.read_text()
    assert text.index("llama.cpp: version: 4321 (stub)") < text.index("| chat | llama.cpp |")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_no_peer_is_an_error(cli):
    ran = cli("bench", "peers", "--model", "mini", "--engine", "llama.cpp", "--bin", "no-such")
    assert ran.code == 2
    assert "There is no program no-such; name one with --bin." in ran.err


def test_a_figure_is_a_png(cli, tmp_path):
    ran = cli("bench", "peers", "--model", "no-such-model", "--plot", str(tmp_path / "a.svg"))
    assert ran.code == 2
    assert "'--plot': it draws a .png" in ran.err
