"""The spellings that files of a family have had, and what of theirs is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models import load_model
from paceline.models.safetensors_file import SINGLE
from paceline.models.spec import Window
from tests.model_files import hf_model, write_gguf, write_tokenizer
from tests.parity.test_transformers import agree
from tests.tiny_models import SPECS, random_weights

BY_FAMILY = {spec.family: spec for spec in SPECS.values()}


def write_folder(folder: Path, spec: Any) -> Any:
    """A Hugging Face folder; returns transformers' model."""
    reference = hf_model(spec, random_weights(spec))
    reference.save_pretrained(folder)
    write_tokenizer(folder)
    return reference


def edit(folder: Path, **changes: Any) -> None:
    """Change keys of config.json; None takes them away."""
    path = folder / "config.json"
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def test_gemma3_as_its_first_files_spell_it(tmp_path: Path) -> None:
    reference = write_folder(tmp_path, BY_FAMILY["gemma3"])
    edit(
        tmp_path,
        layer_types=None,
        rope_parameters=None,
        sliding_window_pattern=2,
        rope_theta=1e6,
        rope_local_base_freq=1e4,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
        tie_word_embeddings=None,
    )
    model = load_model(tmp_path)
    assert model.spec.window == BY_FAMILY["gemma3"].window
    agree(model, reference)


def test_gemma3_s_27b_scales_by_another_head_size(tmp_path: Path) -> None:
    """GGUF has no key for it: 62 layers say it."""
    spec = BY_FAMILY["gemma3"]
    for layers, per_head in ((61, spec.head_size), (62, spec.hidden_size / spec.num_heads)):
        window = replace(spec.window, layers=frozenset(range(0, layers, 2)))
        deep = replace(spec, num_layers=layers, attention_scale=None, window=window)
        path = tmp_path / f"{layers}.gguf"
        write_gguf(path, deep, random_weights(deep))
        assert load_model(path).spec.attention_scale == per_head**-0.5


def test_gpt2_as_its_first_files_name_tensors(tmp_path: Path) -> None:
    """Without a prefix, and with the masks that attention once kept."""
    spec = BY_FAMILY["gpt2"]
    reference = write_folder(tmp_path, spec)
    tensors = load_file(tmp_path / SINGLE)
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    mask = tensors["wpe.weight"][:9, :9].contiguous()
    save_file({**tensors, "h.0.attn.bias": mask}, tmp_path / SINGLE)
    agree(load_model(tmp_path), reference)


def test_gpt2_whose_file_repeats_the_head(tmp_path: Path) -> None:
    spec = replace(BY_FAMILY["gpt2"], tie_embeddings=False)
    weights = random_weights(spec)
    weights["head"] = weights["embed"]
    write_gguf(tmp_path / "model.gguf", spec, weights)
    tied = {name: tensor for name, tensor in weights.items() if name != "head"}
    reference = hf_model(BY_FAMILY["gpt2"], tied)
    agree(load_model(tmp_path / "model.gguf"), reference)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_window_on_the_upper_layers(family: str, tmp_path: Path) -> None:
    layers = BY_FAMILY[family].num_layers
    window = Window(tokens=11, layers=frozenset(range(1, layers)))
    reference = write_folder(tmp_path, replace(BY_FAMILY[family], window=window))
    model = load_model(tmp_path)
    assert model.spec.window == window
    agree(model, reference)
    edit(tmp_path, layer_types=None)
    assert load_model(tmp_path).spec.window == window


def test_a_mistral_without_a_window(tmp_path: Path) -> None:
    reference = write_folder(tmp_path, replace(BY_FAMILY["mistral"], window=None))
    agree(load_model(tmp_path), reference)


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a model that reads images": ("gemma3", {"text_config": {}}),
    "use_bidirectional_attention is": ("gemma3", {"use_bidirectional_attention": True}),
    "hidden_activation 'relu' is": ("gemma3", {"hidden_activation": "relu"}),
    "activation_function 'gelu' is": ("gpt2", {"activation_function": "gelu"}),
    "activation_function must be a gelu": ("gpt2", {"activation_function": "silu"}),
    "scale_attn_weights: false is": ("gpt2", {"scale_attn_weights": False}),
    "add_cross_attention is": ("gpt2", {"add_cross_attention": True}),
}


@pytest.mark.parametrize("complaint", REFUSED)
def test_what_would_be_computed_wrongly(complaint: str, tmp_path: Path) -> None:
    family, changes = REFUSED[complaint]
    write_folder(tmp_path, BY_FAMILY[family])
    edit(tmp_path, **changes)
    with pytest.raises(UnsupportedModelError, match=complaint):
        load_model(tmp_path)


FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sizes: 7 heads cannot share 60": ("gpt2", {"n_head": 7}),
    "layer_types: 'all' is no list": ("gemma3", {"layer_types": "all"}),
    "sliding_window: 0 is no integer": ("mistral", {"sliding_window": 0}),
    "rope_parameters.sliding_attention.rope_theta: 0 is no number": (
        "gemma3",
        {"rope_parameters": {"sliding_attention": {"rope_theta": 0}}},
    ),
    "final_logit_softcapping: 0 is no number": ("gemma3", {"final_logit_softcapping": 0}),
    r"c_fc.weight'.* \[60, 110\]; .* want \[60, 111\]": ("gpt2", {"n_inner": 111}),
}


@pytest.mark.parametrize("complaint", FAULTS)
def test_a_wrong_config_names_the_field(complaint: str, tmp_path: Path) -> None:
    family, changes = FAULTS[complaint]
    write_folder(tmp_path, BY_FAMILY[family])
    edit(tmp_path, **changes)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(tmp_path)
