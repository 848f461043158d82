"""Matrices go from their file into the native layout with the values they are stored with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paceline.errors import ConfigError, UnsupportedModelError
from paceline.kernels.packed import PackedWeight
from paceline.models import load_model
from paceline.models.load import LoadedModel
from tests.model_files import hf_model, write_gguf, write_tokenizer
from tests.tiny_models import SPECS, random_weights

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_K", "Q6_K")
SPEC = replace(
    SPECS["grouped heads, tied"],
    family="llama",
    hidden_size=256,
    head_size=64,
    intermediate_size=512,
    tie_embeddings=False,
)


def matrices(model: LoadedModel) -> dict[str, PackedWeight]:
    return {k: w for k, w in model.weights.items() if isinstance(w, PackedWeight)}


def values(weight: PackedWeight) -> torch.Tensor:
    return weight.rows(torch.arange(weight.out_features))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_every_matrix_keeps_its_format_and_its_values(path: Path) -> None:
    """Rows that rope turns are in halves, whatever blocks they are in."""
    stored = write_gguf(path, SPEC, random_weights(SPEC), FORMATS)
    packed = matrices(load_model(path, kernels="native"))
    assert {w.format for w in packed.values()} == set(FORMATS)
    assert {name for name, tensor in stored.items() if tensor.ndim == 2} == set(packed)
    for name, weight in packed.items():
        assert torch.equal(values(weight), stored[name]), name


@pytest.mark.parametrize("chunk_bytes", [1, 5000])
def test_in_chunks_too(path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    stored = write_gguf(path, SPEC, random_weights(SPEC), FORMATS)
    monkeypatch.setattr("paceline.models.packing._CHUNK_BYTES", chunk_bytes)
    for name, weight in matrices(load_model(path, kernels="native")).items():
        assert torch.equal(values(weight), stored[name]), name


@pytest.mark.parametrize(
    ("options", "kept", "error"),
    [
        ({"dtype": "float32"}, "F32", 0),
        ({"dtype": "bfloat16"}, "BF16", 2**-8),
        ({"quantize": "int8"}, "Q8_0", 2**-7),
        ({"quantize": "int4"}, "Q4_K", 2**-3),
    ],
)
def test_another_format(path: Path, options: dict[str, str], kept: str, error: float) -> None:
    stored = write_gguf(path, SPEC, random_weights(SPEC), FORMATS)
    for name, weight in matrices(load_model(path, kernels="native", **options)).items():
        assert weight.format == kept
        assert (values(weight) - stored[name]).norm() <= error * stored[name].norm(), name


def test_int4_without_whole_super_blocks(path: Path) -> None:
    spec = replace(SPEC, hidden_size=96, intermediate_size=160)
    write_gguf(path, spec, random_weights(spec))
    packed = matrices(load_model(path, kernels="native", quantize="int4"))
    assert packed["gate.0"].format == packed["down.0"].format == "Q4_1"
    assert packed["attention_out.0"].format == "Q4_K"


def test_rows_that_hold_no_whole_blocks(path: Path) -> None:
    spec = replace(SPEC, hidden_size=48)
    write_gguf(path, spec, random_weights(spec))
    with pytest.raises(UnsupportedModelError, match=r"Q8_0 .* multiple of 32 inputs; .* has 48"):
        load_model(path, kernels="native", quantize="int8")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"quantize": "int3"}, "quantize must be int4 or int8, not 'int3'"),
        ({"quantize": "int4", "dtype": "float32"}, "exclude each other"),
        ({"quantize": "int4", "kernels": "torch"}, "needs the native kernels"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_model("no such model", **options)  # type: ignore[arg-type]


GPT2 = replace(SPECS["learned positions"], hidden_size=256, head_size=64, intermediate_size=512)
"""Its file keeps query, key and value as one tensor."""


@pytest.mark.parametrize("chunk_bytes", [5000, 4 << 20])
def test_matrices_that_share_a_tensor(
    path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    stored = write_gguf(path, GPT2, random_weights(GPT2), FORMATS)
    monkeypatch.setattr("paceline.models.packing._CHUNK_BYTES", chunk_bytes)
    packed = matrices(load_model(path, kernels="native"))
    assert packed["query.0"].format == packed["value.0"].format
    assert {"query.0", "key.1", "up.0", "down.1"} < set(packed)
    for name, weight in packed.items():
        assert torch.equal(values(weight), stored[name]), name


@pytest.mark.parametrize(("quantize", "error"), [(None, 0), ("int8", 2**-7)])
def test_matrices_that_are_stored_turned(
    tmp_path: Path, quantize: str | None, error: float
) -> None:
    weights = random_weights(GPT2)
    hf_model(GPT2, weights).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    packed = matrices(load_model(tmp_path, kernels="native", quantize=quantize))
    assert {"query.1", "attention_out.0", "up.0", "down.1"} < set(packed)
    for name, weight in packed.items():
        assert (values(weight) - weights[name]).norm() <= error * weights[name].norm(), name
