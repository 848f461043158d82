"""Our logits against transformers' on random tiny models: float32, max abs difference <= 1e-4."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from paceline.kernels.library import available
from paceline.models import LoadedModel, load_model
from paceline.models.dequantize import GGML_FORMATS
from paceline.models.family import tensor_shapes
from paceline.models.gguf_file import read_gguf
from tests.model_configs import ARCHITECTURES, hf_rope
from tests.model_files import hf_model, write_gguf, write_tokenizer
from tests.tiny_models import SPECS, one_text, random_tokens, random_weights

TOLERANCE = 1e-4
KERNELS = ("torch", "native") if available() else ("torch",)
BLOCKS = replace(
    SPECS["grouped heads, tied"],
    hidden_size=256,
    head_size=64,
    intermediate_size=512,
    tie_embeddings=False,
)
"""Sizes that hold whole blocks of every number format."""


def logits(model: LoadedModel, tokens: list[int]) -> Tensor:
    """logits[T, V] of a text in one pass."""
    return model.forward(one_text(tokens), model.allocate_kv(len(tokens))).logits


def agree(model: LoadedModel, reference: object) -> None:
    tokens = random_tokens(model.spec, 100)
    with torch.inference_mode():
        expected = reference(torch.tensor([tokens])).logits[0]  # type: ignore[operator]
    found = logits(model, tokens)
    assert expected.std() > 0.5, "the logits are too flat to tell anything"
    assert (found - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("shard_size", ["1GB", "100KB"], ids=["one file", "sharded"])
def test_a_hugging_face_folder(name: str, shard_size: str, tmp_path: Path) -> None:
    spec = SPECS[name]
    reference = hf_model(spec, random_weights(spec))
    reference.save_pretrained(tmp_path, max_shard_size=shard_size)
    write_tokenizer(tmp_path)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (shard_size != "1GB")
    for kernels in KERNELS:
        model = load_model(tmp_path, kernels=kernels)
        assert model.spec == replace(spec, eos_ids=frozenset({256}))
        agree(model, reference)


@pytest.mark.parametrize("name", SPECS)
def test_a_gguf_file(name: str, tmp_path: Path) -> None:
    spec = SPECS[name]
    if spec.rope_scaling is not None and spec.rope_scaling.kind == "llama3":
        spec = replace(spec, rope_scaling=None)
    path = tmp_path / "model.gguf"
    stored = write_gguf(path, spec, random_weights(spec))
    model = load_model(path)
    wanted = replace(
        spec, eos_ids=frozenset({256}), family=ARCHITECTURES.get(spec.family, spec.family)
    )
    rounded = {name: getattr(spec, name) for name in ("norm_eps", "attention_scale")}
    assert replace(model.spec, **rounded) == wanted
    agree(model, hf_model(spec, stored))


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_gguf_file_of_mixed_blocks(family: str, tmp_path: Path) -> None:
    biases = SPECS["qkv biases"].biases if family == "qwen2" else BLOCKS.biases
    spec = replace(BLOCKS, family=family, biases=biases)
    path = tmp_path / "model.gguf"
    formats = [kind.name for kind in GGML_FORMATS.values()]
    stored = write_gguf(path, spec, random_weights(spec), formats)
    assert {t.format for t in read_gguf(path).file.tensors.values()} == {*GGML_FORMATS.values()}
    reference = hf_model(spec, stored)
    for kernels in KERNELS:
        agree(load_model(path, dtype="float32", kernels=kernels), reference)


def test_llama3_frequencies_as_a_tensor_of_factors(tmp_path: Path) -> None:
    """Llama 3.1 files in GGUF carry the factors by which its rope divides each frequency."""
    spec = replace(SPECS["odd sizes, all biases"], max_model_len=256)
    reference = hf_model(spec, random_weights(spec))
    plain = spec.rope_theta ** -(torch.arange(0, spec.head_size, 2) / spec.head_size)
    weights = random_weights(spec)
    factors = (plain.double() / reference.model.rotary_emb.inv_freq.double()).float()
    path = tmp_path / "model.gguf"
    write_gguf(path, spec, {**weights, "rope_factors": factors})
    assert factors.max() > 1
    agree(load_model(path), reference)


def test_the_old_spelling_of_rope(tmp_path: Path) -> None:
    spec = SPECS["odd sizes, all biases"]
    reference = hf_model(spec, random_weights(spec))
    reference.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = hf_rope(spec)
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = {**scaling, "type": scaling.pop("rope_type")}
    del config["rope_parameters"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    agree(load_model(tmp_path), reference)


def test_bfloat16_is_near(tmp_path: Path) -> None:
    spec = SPECS["qkv biases"]
    reference = hf_model(spec, random_weights(spec))
    reference.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    model = load_model(tmp_path, dtype="bfloat16", kernels="torch")
    tokens = random_tokens(spec, 60)
    with torch.inference_mode():
        expected = reference(torch.tensor([tokens])).logits[0]
    found = logits(model, tokens)
    assert model.dtype == torch.bfloat16
    assert model.weight_bytes == 2 * sum(t.numel() for t in random_weights(spec).values())
    assert (found - expected).abs().mean() < 0.05 * expected.std()


def test_every_tensor_shape_is_transformers_own() -> None:
    for spec in SPECS.values():
        weights = {name: torch.zeros(shape) for name, shape in tensor_shapes(spec).items()}
        hf_model(spec, weights)
