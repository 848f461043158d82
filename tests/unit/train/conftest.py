"""Heads of a few steps for the embedded model: worth nothing, but whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.cache import BlockPool
from paceline.models import LoadedModel, load_model
from paceline.train.eagle import EagleObjective
from paceline.train.eagle_shape import shape_of
from paceline.train.loop import Recipe
from paceline.train.medusa import MedusaObjective
from paceline.train.run import Source, Told, run
from paceline.train.text import Corpus, frequent_ids

ROW_TOKENS = 48
TEXT = "".join(f"def f{i}(a, b):\n    return a * {i} + b\n\n\n" for i in range(36))


@pytest.fixture(scope="session")
def target() -> LoadedModel:
    torch.set_num_threads(1)
    return load_model("mini")


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "text.jsonl"
    path.write_text("\n".join(json.dumps({"text": TEXT[i::2]}) for i in range(2)))
    return path


def objective(kind: str, target: LoadedModel, vocab: int | None = None) -> Callable[[Corpus], Any]:
    """How an objective of that kind is made of the rows."""

    def make(corpus: Corpus) -> Any:
        ids = frequent_ids(corpus.train, vocab, target.spec.vocab_size)
        if kind == "medusa":
            return MedusaObjective(target, heads=3, draft_ids=ids)
        shape = shape_of(target.spec, 64, ids, fused=kind == "eagle3")
        return EagleObjective(target, shape, ids, steps=3 if kind == "eagle3" else 1, seed=0)

    return make


def told() -> Told:
    """Nobody is told."""
    return Told(lambda name: lambda done, total: None, lambda size: None, lambda done, loss: None)


Train = Callable[..., Path]


@pytest.fixture(scope="session")
def train_head(target: LoadedModel, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """A head of a few steps; one that is asked for again without a folder is there."""

    made: dict[Any, Path] = {}

    def train(kind: str, out: Path | None = None, vocab: int | None = None, **recipe: Any) -> Path:
        key = (kind, vocab, *sorted(recipe.items()))
        if out is None and key in made:
            return made[key]
        out = out or made.setdefault(key, tmp_path_factory.mktemp(kind))

        leg_s = recipe.pop("leg_s", None)
        recipe = {"steps": 2, "rows_per_step": 2, "check_every": 2, **recipe}
        source = Source(data=text, row_tokens=ROW_TOKENS)
        make = objective(kind, target, vocab)
        run(target, make, source, Recipe(**recipe), out, told(), leg_s)
        return out

    return train


@pytest.fixture
def host(target: LoadedModel) -> SimpleNamespace:
    pool = BlockPool(16, 16)
    return SimpleNamespace(target=target, pool=pool, max_rows=512, num_slots=256)
