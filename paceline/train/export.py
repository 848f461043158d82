"""Heads in the layouts that other engines load, and in ours with matrices of int8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.drafters.checkpoint import CONFIG, INT8, open_head, save_head
from paceline.drafters.eagle import KIND as EAGLE_KIND
from paceline.drafters.eagle import load_layer
from paceline.drafters.eagle_layer import EagleLayer, EagleShape
from paceline.drafters.int8 import GROUP, SCALE, quantize
from paceline.drafters.medusa import KIND as MEDUSA_KIND
from paceline.drafters.medusa import MedusaHeads
from paceline.drafters.parts import TargetParts, dense
from paceline.drafters.published import EAGLE, EAGLE3_BESIDE, LAYER, NORMS
from paceline.errors import ConfigError
from paceline.files import write_whole
from paceline.models import LoadedModel
from paceline.models.hf_config import read_config
from paceline.models.safetensors_file import SINGLE, read_safetensors
from paceline.models.safetensors_writer import write_safetensors

SPECULATORS = "speculators"
FORMATS = (EAGLE_KIND, MEDUSA_KIND, SPECULATORS, INT8)
Written = tuple[dict[str, Any], dict[str, Tensor]]


def export_head(folder: Path, target: LoadedModel, layout: str, out: Path) -> None:
    """Write a head in another layout; `folder` may hold ours or a published one.

    Raises:
        ConfigError: the layout has no place for it.
        OSError: the disk is full.
    """
    if layout not in FORMATS:
        raise ConfigError(f"There is no format '{layout}'; known: {', '.join(FORMATS)}.")
    if layout == INT8:
        shrink(folder, out)
        return
    kind = read_config(folder).text("kind", "")
    wanted = MEDUSA_KIND if layout == MEDUSA_KIND else EAGLE_KIND
    if kind and kind != wanted:
        raise ConfigError(f"{folder} holds a head for '{kind}', which {layout} has no place for.")
    found = open_head(wanted, str(folder), target)
    if wanted == MEDUSA_KIND:
        config, tensors = medusa(MedusaHeads.load(found, target), target)
    else:
        layer = load_layer(found, target)
        config, tensors = eagle(layer, target, prefix="midlayer")
        if layout == SPECULATORS:
            config, tensors = speculators(layer, target)
    halves = {n: t.bfloat16() if t.is_floating_point() else t for n, t in tensors.items()}
    write_safetensors(out / SINGLE, halves)
    write_whole(out / CONFIG, json.dumps(config, indent=1).encode() + b"\n")


def shrink(folder: Path, out: Path) -> None:
    """Write a head of ours with its matrices as int8 in groups of 32, a quarter of float32's size.

    Raises:
        ConfigError: it is a published one, has them already, or a width is no multiple of 32.
        ModelFileError: the folder is damaged.
    """
    config = read_config(folder)
    if "kind" not in config or INT8 in config:
        raise ConfigError(f"{folder} is in {'int8' if INT8 in config else 'another'} layout.")
    file = read_safetensors(folder / SINGLE)
    kept: dict[str, Tensor] = {}
    for name in file.tensors:
        tensor = file.load(name, torch.float32)
        if tensor.dim() != 2:
            kept[name] = tensor
        elif tensor.shape[1] % GROUP:
            raise ConfigError(
                f"{folder}: '{name}' has {tensor.shape[1]} inputs, not a {GROUP}fold."
            )
        else:
            kept[name], kept[name + SCALE] = quantize(tensor)
    save_head(out, {**config.values, INT8: True}, kept)


def medusa(heads: MedusaHeads, target: LoadedModel) -> Written:
    """Medusa's own layout, whose heads each have a matrix over the vocabulary."""
    tensors: dict[str, Tensor] = {}
    for i in range(len(heads.accuracies)):
        own = heads.matrices[f"head.{i}"] if heads.own_heads else heads.parts.head.weight
        tensors[f"{i}.0.linear.weight"] = dense(heads.matrices[f"block.{i}"])
        tensors[f"{i}.0.linear.bias"] = heads.biases[f"block_bias.{i}"]
        tensors[f"{i}.1.weight"] = dense(own)
    config = {
        "model_type": MEDUSA_KIND,
        "medusa_num_heads": len(heads.accuracies),
        "medusa_num_layers": 1,
        "base_model_name_or_path": target.name,
        "hidden_size": target.spec.hidden_size,
        "vocab_size": target.spec.vocab_size,
    }
    return config, tensors


def eagle(layer: EagleLayer, target: LoadedModel, prefix: str) -> Written:
    """The layouts of EAGLE's authors."""
    config = llama_config(layer.shape, target)
    table = dense(TargetParts.of(target).embed.table)
    if not layer.shape.fuses:
        names = {own: name for name, own in EAGLE.items()}
        tensors = {names[own]: tensor for own, tensor in layer.tensors.items()}
        return config | {"architectures": ["LlamaForCausalLM"]}, tensors | {
            "embed_tokens.weight": table
        }
    names = {own: name for name, own in EAGLE3_BESIDE.items()}
    names |= {own: f"{prefix}.{name}" for name, own in (LAYER | NORMS).items()}
    tensors = {names[own]: tensor for own, tensor in layer.tensors.items()}
    config |= {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": layer.shape.vocab_size,
        "eagle_aux_hidden_state_layer_ids": [each + 1 for each in layer.shape.layers],
        "norm_before_residual": layer.shape.norm_before_residual,
    }
    return config, tensors | {"embed_tokens.weight": table} | vocabulary_maps(layer, target)


def speculators(layer: EagleLayer, target: LoadedModel) -> Written:
    """The speculators format of EAGLE-3; raises ConfigError for EAGLE."""
    if not layer.shape.fuses:
        raise ConfigError("The speculators format is written for EAGLE-3; export this as eagle.")
    config, tensors = eagle(layer, target, prefix="layers.0")
    proposal = {"proposal_type": "greedy", "speculative_tokens": 5}
    verifier = {"name_or_path": target.name, "architectures": ["LlamaForCausalLM"]}
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "transformer_layer_config": llama_config(layer.shape, target),
        "draft_vocab_size": layer.shape.vocab_size,
        "norm_before_residual": layer.shape.norm_before_residual,
        "eagle_aux_hidden_state_layer_ids": config["eagle_aux_hidden_state_layer_ids"],
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": verifier,
        },
    }, tensors


def llama_config(shape: EagleShape, target: LoadedModel) -> dict[str, Any]:
    """The layer as a llama of one layer."""
    return {
        "model_type": "llama",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_size,
        "hidden_act": "silu",
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        "max_position_embeddings": target.spec.max_model_len,
        "vocab_size": target.spec.vocab_size,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }


def vocabulary_maps(layer: EagleLayer, target: LoadedModel) -> dict[str, Tensor]:
    """d2t[draft vocabulary]: what is added to a drafted id; t2d[V]: which ids are drafted."""
    ids = layer.draft_ids
    if ids is None:
        ids = torch.arange(target.spec.vocab_size)
    drafted = torch.zeros(target.spec.vocab_size, dtype=torch.bool)
    drafted[ids] = True
    return {"d2t": ids - torch.arange(len(ids)), "t2d": drafted}
