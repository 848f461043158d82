"""`paceline train` and `paceline export`: what they write, and what they refuse in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.drafters import drafters
from paceline.drafters.checkpoint import shipped_heads
from paceline.models.aliases import embedded_folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.py"
    path.write_text("".join(f"def f{i}(a):\n    return a + {i}\n\n\n" for i in range(40)))
    return path


def quick(text: Path, out: Path, steps: int = 2) -> list[str]:
    sizes = ["--row-tokens", "32", "--steps", str(steps), "--rows-per-step", "2"]
    return ["--data", str(text), "--out", str(out), *sizes]


def test_a_trained_head_drafts(cli, text, tmp_path):
    out = tmp_path / "head"
    ran = cli("train", "eagle3", *quick(text, out), "--mlp-width", "32", "--draft-vocab", "200")
    assert ran.code == 0, ran.err
    assert "2 of 2 steps" in ran.out
    assert "held-out acceptance by depth: 0." in ran.out
    assert "tokens per pass, speedup" in ran.out
    assert "MB on disk" in ran.err
    config = json.loads((out / "config.json").read_text())
    assert config["provenance"]["data"] == "text.py"
    assert config["target"]["name"] == "mini"
    drafter = f"{config['kind']}:{out}"
    drafted = cli("--draft", drafter, "--max-tokens", "8", "--json", "x = ")
    assert json.loads(drafted.out)["speculation"]["proposed"] > 0


def test_a_leg_says_how_to_go_on(cli, text, tmp_path):
    arguments = [*quick(text, tmp_path / "head", steps=3), "--leg-minutes", "0"]
    first = cli("train", "medusa", *arguments)
    assert "1 of 3 steps" in first.out
    assert "Run the same command again to go on." in first.out
    assert "2 of 3 steps" in cli("train", "medusa", *arguments).out


def test_the_layers_that_were_found_draft(cli, text, tmp_path):
    out = tmp_path / "layers"
    found = cli("train", "layerskip", "--data", str(text), "--out", str(out), "--tokens", "64")
    assert found.code == 0, found.err
    assert "agreement" in found.out
    layers = json.loads((out / "config.json").read_text())["layers"]
    assert 0 < len(layers) < 6
    ran = cli("--draft", f"layerskip:{out}", "--max-tokens", "8", "--json", "x = ")
    assert json.loads(ran.out)["speculation"]["proposed"] > 0


def test_an_exported_head_drafts(cli, tmp_path):
    shipped = shipped_heads(embedded_folder("mini")) / "medusa"
    out = tmp_path / "out"
    ran = cli("export", str(shipped), "--format", "medusa", "--out", str(out))
    assert (ran.code, ran.out.strip()) == (0, str(out))
    ran = cli("--draft", f"medusa:{out}", "--max-tokens", "8", "--json", "x = ")
    assert json.loads(ran.out)["speculation"]["proposed"] > 0


@pytest.mark.parametrize(
    ("change", "code", "problem"),
    [
        ({"--data": "nowhere.txt"}, 2, "Cannot read the text of nowhere.txt"),
        ({"--target": "minni"}, 2, "did you mean 'mini'"),
        ({"--rate": "-1"}, 2, "rate must be positive"),
        ({"--steps": "0"}, 2, "--steps"),
        ({"--row-tokens": "30000"}, 2, "lower --row-tokens"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(cli, text, tmp_path, change, code, problem):
    arguments = {"--data": str(text), "--out": str(tmp_path / "head"), **change}
    ran = cli("train", "medusa", *(part for pair in arguments.items() for part in pair))
    assert ran.code == code
    assert problem in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "head" / "checkpoint.pt").exists()


def test_every_drafter_that_needs_a_head_says_how_to_train_one(cli):
    for name in ("layerskip", "medusa", "eagle"):
        assert name in drafters
        ran = cli("--model", "mini-draft", "--draft", name, "x")
        assert ran.code == 2
        assert f"paceline train {name} --target mini-draft" in ran.err
