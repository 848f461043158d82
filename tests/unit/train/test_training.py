"""Training: resumed runs, captured states, what is refused, what stays whole."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from paceline.errors import ConfigError
from paceline.models import LoadedModel
from paceline.runtime import Rows, Runner, pack
from paceline.train import capture as capturing
from paceline.train import loop
from paceline.train.capture import capture
from paceline.train.curves import draw_curves
from paceline.train.generate import generate_rows
from paceline.train.loop import Recipe
from paceline.train.medusa import conditional
from paceline.train.run import Source, run
from paceline.train.text import read_corpus
from tests.unit.train.conftest import Train, objective, told

IDS = torch.arange(2 * 40).view(2, 40) % 37


def quiet(done: int, total: int) -> None:
    pass


def stop_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill in the middle of a step: whatever that step had done is lost."""
    real = loop.one_step

    def one_step(objective: Any, captured: Any, optimizer: Any, recipe: Any, step: int) -> float:
        if step == steps:
            with torch.no_grad():
                for parameter in objective.module.parameters():
                    parameter.add_(1)
            raise KeyboardInterrupt
        return real(objective, captured, optimizer, recipe, step)

    monkeypatch.setattr(loop, "one_step", one_step)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("medusa", {}),
        ("medusa", {"vocab": 40}),
        ("eagle3", {}),
        ("eagle", {"vocab": 500, "bfloat16": True}),
    ],
)
def test_a_killed_run_goes_on_to_the_same_weights(
    kind: str,
    options: dict[str, Any],
    train_head: Train,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe: dict[str, Any] = {"steps": 4, "check_every": 3, "seed": 3, **options}
    whole = train_head(kind, **recipe)
    with monkeypatch.context() as patched:
        stop_after(3, patched)
        with pytest.raises(KeyboardInterrupt):
            train_head(kind, tmp_path, **recipe)
    train_head(kind, tmp_path, **recipe)
    assert (tmp_path / "model.safetensors").read_bytes() == (
        whole / "model.safetensors"
    ).read_bytes()
    assert (tmp_path / "curves.jsonl").read_text() == (whole / "curves.jsonl").read_text()
    lines = (whole / "curves.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == [3, 4]


def test_a_leg_leaves_a_head_that_can_be_served_and_the_next_goes_on(
    train_head: Train, tmp_path: Path
) -> None:
    for step in (1, 2, 2):
        train_head("medusa", tmp_path, steps=2, leg_s=0.0)
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["provenance"]["steps"] == step
    whole = train_head("medusa", steps=2)
    assert (whole / "model.safetensors").read_bytes() == (
        tmp_path / "model.safetensors"
    ).read_bytes()


def test_another_seed_is_another_head(train_head: Train) -> None:
    one, other = (train_head("medusa", seed=seed) / "model.safetensors" for seed in (0, 1))
    assert one.read_bytes() != other.read_bytes()


def test_another_recipe_does_not_go_on(train_head: Train, tmp_path: Path) -> None:
    train_head("medusa", tmp_path)
    with pytest.raises(ConfigError, match="another recipe"):
        train_head("medusa", tmp_path, rate=0.5)


def test_curves_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    held = {"loss": 2.0, "train_loss": 2.5, "acceptance": [0.4, 0.2], "tokens_per_pass": 1.5}
    path = draw_curves([{"step": step, **held} for step in (2, 4)], tmp_path)
    assert path is not None
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_curves([], tmp_path) is None


def test_a_full_disk_leaves_the_last_checkpoint(
    train_head: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_head("medusa", tmp_path, steps=3, leg_s=0.0)
    before = (tmp_path / loop.CHECKPOINT).read_bytes()

    def full(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("[enforce fail at inline_container.cc] . PytorchStreamWriter failed")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="cannot be written"):
        train_head("medusa", tmp_path, steps=3)
    assert (tmp_path / loop.CHECKPOINT).read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_states_are_the_targets_and_are_captured_once(target: LoadedModel, tmp_path: Path) -> None:
    rows: list[int] = []
    first = capture(target, IDS, (2, 5), tmp_path, quiet)
    capture(target, IDS, (2, 5), tmp_path, lambda done, total: rows.append(done))
    assert rows == [2]
    (hidden,) = [first.states([1])]
    work = Rows(tokens=IDS[1].tolist(), start=0, slots=np.arange(40))
    wanted = Runner.allocate(target, 40).forward(pack([work], (2, 5))).hidden
    for layer in (2, 5):
        torch.testing.assert_close(hidden[layer][0], wanted[layer], rtol=1e-3, atol=1e-3)


def test_a_capture_goes_on_where_it_was_stopped(
    target: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "SHARD_ROWS", 1)
    capture(target, IDS, (5,), tmp_path / "whole", quiet)
    capture(target, IDS, (5,), tmp_path / "part", quiet)
    lost = tmp_path / "part" / "states_00001.npy"
    kept = tmp_path / "part" / "states_00000.npy"
    lost.unlink()
    written = kept.stat().st_mtime_ns
    capture(target, IDS, (5,), tmp_path / "part", quiet)
    assert lost.read_bytes() == (tmp_path / "whole" / lost.name).read_bytes()
    assert kept.stat().st_mtime_ns == written


def test_states_of_other_text_are_refused(target: LoadedModel, tmp_path: Path) -> None:
    capture(target, IDS, (5,), tmp_path, quiet)
    with pytest.raises(ConfigError, match="other text, layers or weights"):
        capture(target, IDS + 1, (5,), tmp_path, quiet)


def test_a_disk_too_small_is_refused_before_anything_is_written(
    target: LoadedModel, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    sizes: list[int] = []
    tell = told()
    tell = type(tell)(tell.stage, sizes.append, tell.step)
    source = Source(data=text, row_tokens=48)
    with pytest.raises(ConfigError, match=r"0\.00 GB are free"):
        run(target, objective("medusa", target), source, Recipe(steps=1), tmp_path, tell)
    assert sizes[0] > 1000
    assert not list(tmp_path.rglob("*.npy"))


def test_rows_the_target_writes_begin_as_the_text(target: LoadedModel, tmp_path: Path) -> None:
    ids = torch.tensor([target.tokenizer.encode("def read_lines(path):\n" * 8)[:32]] * 2)
    rows = generate_rows(target, ids, 0.8, tmp_path, quiet)
    assert rows.shape == ids.shape
    assert torch.equal(rows[:, :4], ids[:, :4])
    assert rows[0].tolist() != rows[1].tolist()
    assert torch.equal(generate_rows(target, ids, 0.8, tmp_path, quiet), rows)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", "", "is empty"),
        ("a.txt", " \n", "is empty"),
        ("a.txt", "x = 1\n", "are the least"),
        ("a.jsonl", "", "is empty"),
        ("a.jsonl", '{"text": "x"}\nno\n', "line 2 is no JSON"),
        ("a.jsonl", '{"body": "x"}\n', "line 1 has no text"),
        ("a.jsonl", '{"text": 3}\n', "line 1 has no text"),
        ("a.jsonl.gz", "no gzip", "Cannot read the text"),
    ],
)
def test_text_that_cannot_be_trained_on_is_refused(
    name: str, content: str, problem: str, target: LoadedModel, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        read_corpus(path, target, 64)


def test_a_missing_file_is_refused(target: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read the text"):
        read_corpus(tmp_path / "none.txt", target, 64)


def test_rows_hold_the_text_in_order_and_none_twice(target: LoadedModel, text: Path) -> None:
    corpus = read_corpus(text, target, 40)
    rows = [tuple(row) for row in (*corpus.train.tolist(), *corpus.held_out.tolist())]
    assert len(rows) > 10
    assert len(corpus.held_out) == -(-len(rows) // 20) - (len(rows) % 20 > 0)
    entries = [json.loads(line)["text"] for line in text.read_text().splitlines()]
    written = target.tokenizer.decode(corpus.train[0].tolist())
    assert entries[0].startswith(written)


def test_accuracies_are_conditional_on_the_heads_before() -> None:
    ranks = torch.tensor([[0, 0, 1, 9], [0, 1, 0, 0], [1, 1, 1, 0]])
    assert conditional(ranks, count=2) == [
        [0.5, 0.25],
        [pytest.approx(2 / 3), pytest.approx(1 / 3)],
        [0.0, 1.0],
    ]
