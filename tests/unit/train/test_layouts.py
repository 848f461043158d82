"""Heads in others' layouts: a round trip keeps every weight, and what is damaged is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from paceline.drafters import int8
from paceline.drafters.checkpoint import open_head
from paceline.drafters.eagle import load_layer
from paceline.drafters.medusa import MedusaHeads
from paceline.drafters.parts import dense
from paceline.engine import LLM
from paceline.errors import ConfigError, ModelFileError, UnsupportedModelError
from paceline.models import LoadedModel
from paceline.models.dequantize import INDEX_FORMATS, SAFETENSORS_FORMATS
from paceline.models.safetensors_file import read_safetensors
from paceline.train.export import export_head
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS
from tests.unit.train.conftest import Train

EVERY = {**SAFETENSORS_FORMATS, **INDEX_FORMATS}


@pytest.mark.parametrize(
    ("kind", "vocab", "layout"),
    [
        ("eagle", None, "eagle"),
        ("eagle", 300, "eagle"),
        ("eagle3", None, "eagle"),
        ("eagle3", 300, "eagle"),
        ("eagle3", 300, "speculators"),
    ],
)
def test_an_eagle_head_comes_back(
    kind: str,
    vocab: int | None,
    layout: str,
    train_head: Train,
    target: LoadedModel,
    tmp_path: Path,
) -> None:
    folder = train_head(kind, vocab=vocab)
    export_head(folder, target, layout, tmp_path)
    before = load_layer(open_head("eagle", str(folder), target), target)
    after = load_layer(open_head("eagle", str(tmp_path), target), target)
    assert {n: t.shape for n, t in after.tensors.items()} == {
        n: t.shape for n, t in before.tensors.items()
    }
    assert all(torch.equal(t, before.tensors[n]) for n, t in after.tensors.items())
    assert after.shape.layers == before.shape.layers
    if kind == "eagle3":  # the first layout has no place for fewer ids
        ids = before.draft_ids if vocab else torch.arange(target.spec.vocab_size)
        assert torch.equal(after.draft_ids, ids)  # type: ignore[arg-type]


def test_a_medusa_head_comes_back_with_a_head_of_its_own(
    train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    folder = train_head("medusa")
    export_head(folder, target, "medusa", tmp_path)
    before = MedusaHeads.load(open_head("medusa", str(folder), target), target)
    after = MedusaHeads.load(open_head("medusa", str(tmp_path), target), target)
    assert after.own_heads
    for i in range(3):
        name = f"block.{i}"
        assert torch.equal(dense(after.matrices[name]), dense(before.matrices[name]))
        assert torch.equal(after.biases[f"block_bias.{i}"], before.biases[f"block_bias.{i}"])
        assert torch.equal(dense(after.matrices[f"head.{i}"]), dense(target.weights["embed"]))


@pytest.mark.parametrize(("kind", "layout"), [("eagle3", "speculators"), ("medusa", "medusa")])
def test_a_published_head_drafts(
    kind: str, layout: str, train_head: Train, target: LoadedModel, tmp_path: Path, mini: LLM
) -> None:
    export_head(train_head(kind), target, layout, tmp_path)
    name = "medusa" if kind == "medusa" else "eagle"
    llm = LLM("mini", draft=f"{name}:{tmp_path}")
    params = SamplingParams(temperature=0, max_tokens=12)
    plain = mini.generate(PROMPTS[:2], params, speculation=Speculation(k=0))
    outputs = llm.generate(PROMPTS[:2], params)
    assert [o.token_ids for o in outputs] == [o.token_ids for o in plain]
    assert all(o.counts.proposed for o in outputs)


@pytest.mark.parametrize(("kind", "vocab"), [("eagle", 300), ("eagle3", None), ("medusa", None)])
def test_a_head_of_int8_is_the_same_but_for_rounding(
    kind: str, vocab: int | None, train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    """Each number is within half a step of its group and a half-float's error of the step."""
    folder, name = train_head(kind, vocab=vocab), "medusa" if kind == "medusa" else "eagle"
    export_head(folder, target, "int8", tmp_path)
    stored = read_safetensors(folder / "model.safetensors")
    shapes = {n: t.shape for n, t in stored.tensors.items()}
    found = open_head(name, str(tmp_path), target).tensors(shapes)
    for each, weight in found.items():
        before = stored.load(each, torch.float32)
        groups = (-1, 32) if weight.dim() == 2 else (-1, len(weight))
        steps = before.reshape(groups).abs().amax(1) / 127
        room = steps * (0.51 + 127 / 2048) if weight.dim() == 2 else steps * 0
        assert ((weight - before).reshape(groups).abs().amax(1) <= room + 127 * 2**-25).all()
        if weight.dim() == 2:
            codes, scale = int8.quantize(weight)
            assert torch.equal(int8.restored(codes, scale), weight)
    small, large = (
        sum(p.stat().st_size for p in f.glob("*.safetensors")) for f in (tmp_path, folder)
    )
    assert small < 0.6 * large


def test_a_head_of_int8_runs_as_int8_and_drafts(
    train_head: Train, target: LoadedModel, tmp_path: Path, mini: LLM
) -> None:
    export_head(train_head("eagle", vocab=300), target, "int8", tmp_path)
    layer = load_layer(open_head("eagle", str(tmp_path), target), target)
    if target.native:
        assert layer.matrix("gate").format == "Q8_0"  # type: ignore[union-attr]
        assert torch.equal(dense(layer.matrix("gate")), layer.tensors["gate"])
    params = SamplingParams(temperature=0, max_tokens=12)
    plain = mini.generate(PROMPTS[:2], params, speculation=Speculation(k=0))
    outputs = LLM("mini", draft=f"eagle:{tmp_path}").generate(PROMPTS[:2], params)
    assert [o.token_ids for o in outputs] == [o.token_ids for o in plain]
    assert all(o.counts.proposed for o in outputs)


def test_a_head_runs_as_int4_where_it_is_asked_to(
    train_head: Train, target: LoadedModel, mini: LLM
) -> None:
    folder = train_head("eagle", vocab=300)
    if not target.native:
        with pytest.raises(ConfigError, match="needs the native kernels"):
            LLM("mini", draft=f"eagle:{folder}:quantize=int4")
        return
    layer = load_layer(open_head("eagle", str(folder), target), target, "int4")
    width = layer.shape.hidden_size
    assert layer.matrix("gate").format == ("Q4_1" if width % 256 else "Q4_K")  # type: ignore[union-attr]
    params = SamplingParams(temperature=0, max_tokens=12)
    plain = mini.generate(PROMPTS[:2], params, speculation=Speculation(k=0))
    outputs = LLM("mini", draft=f"eagle:{folder}:quantize=int4").generate(PROMPTS[:2], params)
    assert [o.token_ids for o in outputs] == [o.token_ids for o in plain]
    assert all(o.counts.proposed for o in outputs)


def test_what_cannot_be_int8_is_refused(
    train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    export_head(train_head("eagle"), target, "int8", tmp_path / "a")
    with pytest.raises(ConfigError, match="is in int8 layout"):
        export_head(tmp_path / "a", target, "int8", tmp_path / "b")
    export_head(train_head("eagle"), target, "eagle", tmp_path / "c")
    with pytest.raises(ConfigError, match="is in another layout"):
        export_head(tmp_path / "c", target, "int8", tmp_path / "b")
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    (tmp_path / "a" / "config.json").write_text(json.dumps(config | {"int8": False}))
    with pytest.raises(UnsupportedModelError, match="I8"):
        load_layer(open_head("eagle", str(tmp_path / "a"), target), target)


def test_the_tables_of_ids_are_as_published(
    train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    """target id = drafted id + d2t; t2d marks the ids that are drafted."""
    folder = train_head("eagle3", vocab=300)
    ids = json.loads((folder / "config.json").read_text())["draft_ids"]
    export_head(folder, target, "eagle", tmp_path)
    file = read_safetensors(tmp_path / "model.safetensors", EVERY)
    offsets = file.load("d2t", torch.float32).long()
    assert (offsets + torch.arange(300)).tolist() == ids
    assert file.load("t2d", torch.float32).nonzero().flatten().tolist() == ids
    assert file.tensors["midlayer.self_attn.q_proj.weight"].shape == (256, 512)
    assert file.tensors["lm_head.weight"].shape == (300, 256)


def test_weights_may_be_pickled_and_nothing_else_may(
    train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    export_head(train_head("eagle"), target, "eagle", tmp_path)
    path = tmp_path / "model.safetensors"
    file = read_safetensors(path)
    tensors = {name: file.load(name, torch.float32) for name in file.tensors}
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    path.unlink()
    load_layer(open_head("eagle", str(tmp_path), target), target)
    torch.save({"fc.weight": Path("x")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelFileError, match="data"):
        open_head("eagle", str(tmp_path), target)


def test_a_head_of_another_width_is_refused(
    train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    export_head(train_head("eagle"), target, "eagle", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": 512}))
    with pytest.raises(ConfigError, match="with hidden_size 512; mini has 256"):
        open_head("eagle", str(tmp_path), target)


def test_a_layout_that_has_no_place_for_a_head_is_refused(
    train_head: Train, target: LoadedModel, tmp_path: Path
) -> None:
    for kind, layout in (("medusa", "eagle"), ("eagle", "medusa"), ("eagle", "speculators")):
        with pytest.raises(ConfigError, match=r"no place for|written for EAGLE-3"):
            export_head(train_head(kind), target, layout, tmp_path)
    with pytest.raises(ConfigError, match="no format 'gguf'"):
        export_head(train_head("eagle"), target, "gguf", tmp_path)
    assert not list(tmp_path.iterdir())
