"""Heads as others publish them -> ours: EAGLE, EAGLE-3, Medusa, and the speculators format.

Weights are taken from safetensors, or from a .bin or .pt file, which is unpickled with nothing but
tensors allowed. The embedding that a file repeats is the target's, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.errors import ModelFileError
from paceline.models import ModelSpec, bounds
from paceline.models.dequantize import INDEX_FORMATS, SAFETENSORS_FORMATS
from paceline.models.fields import Fields
from paceline.models.safetensors_file import SINGLE, read_safetensors

PICKLES = ("pytorch_model.bin", "medusa_lm_head.pt")
LAYER = {
    "self_attn.q_proj.weight": "query",
    "self_attn.k_proj.weight": "key",
    "self_attn.v_proj.weight": "value",
    "self_attn.o_proj.weight": "attention_out",
    "post_attention_layernorm.weight": "mlp_norm",
    "mlp.gate_proj.weight": "gate",
    "mlp.up_proj.weight": "up",
    "mlp.down_proj.weight": "down",
}
EAGLE = {"fc.weight": "fuse", "fc.bias": "fuse_bias"} | {
    f"layers.0.{name}": own for name, own in LAYER.items()
}
NORMS = {"hidden_norm.weight": "feature_norm", "input_layernorm.weight": "embed_norm"}
EAGLE3_BESIDE = {"fc.weight": "fuse", "norm.weight": "final_norm", "lm_head.weight": "head"}
PREFIXES = ("midlayer", "layers.0")
"""What EAGLE-3's one layer is called: by its authors, and by speculators."""
MEDUSA = {
    "block": ("{i}.0.linear.weight", "blocks.{i}.layers.0.weight"),
    "block_bias": ("{i}.0.linear.bias", "blocks.{i}.layers.0.bias"),
    "head": ("{i}.1.weight", "lm_heads.{i}.weight"),
}
"""By its authors' names, and vLLM's."""
REPEATED = ("embed_tokens.weight", "t2d")
"""Tensors that say nothing new."""
USUAL_ACCURACY, USUAL_FALL = (0.6, 0.15, 0.08, 0.05, 0.03), 0.85
"""Of Medusa's first head by rank, and from one head to the next, where a file does not say."""


Translated = tuple[Fields, dict[str, Tensor]]


def translate(config: Fields, spec: ModelSpec) -> Translated:
    """The config.json and tensors that we would have written.

    Raises:
        ModelFileError: the folder holds none of these layouts, or it is damaged.
    """
    tensors = read_tensors(config.path.parent)
    if any(re.match(r"\d+\.0\.|blocks\.", name) for name in tensors):
        return medusa(config, tensors, spec)
    if "d2t" in tensors or any(f"{prefix}.hidden_norm.weight" in tensors for prefix in PREFIXES):
        return eagle3(config, tensors, spec)
    if "fc.weight" in tensors:
        return eagle(config, tensors, spec)
    raise config.fault("weights", "are of no layout that is known: EAGLE, EAGLE-3 or Medusa")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a published head as float32; raises ModelFileError."""
    if (folder / SINGLE).is_file():
        file = read_safetensors(folder / SINGLE, {**SAFETENSORS_FORMATS, **INDEX_FORMATS})
        return {name: file.load(name, torch.float32) for name in file.tensors}
    for path in (folder / name for name in PICKLES):
        if path.is_file():
            try:
                found = torch.load(path, map_location="cpu", weights_only=True)
                return {name: tensor.float() for name, tensor in found.items()}
            except Exception as error:
                raise ModelFileError(path, "data", str(error).splitlines()[0]) from error
    raise ModelFileError(folder, SINGLE, "is missing")


def eagle(config: Fields, tensors: Mapping[str, Tensor], spec: ModelSpec) -> Translated:
    """SafeAILab's first layout: a llama layer without its first norm, and `fc`."""
    found = renamed(tensors, EAGLE, ("lm_head.weight",))
    bias = {"fuse_bias": torch.zeros(spec.hidden_size)} if "fuse_bias" not in found else {}
    values = sizes(config, spec) | {"vocab_size": spec.vocab_size, "layers": [spec.num_layers - 1]}
    return described(config, values, spec), found | bias


def eagle3(config: Fields, tensors: Mapping[str, Tensor], spec: ModelSpec) -> Translated:
    """Both EAGLE-3 layouts: its authors', and that of speculators."""
    inner = config
    if "transformer_layer_config" in config:
        inner = config.group("transformer_layer_config")
    prefix = next((p for p in PREFIXES if f"{p}.hidden_norm.weight" in tensors), PREFIXES[0])
    names = EAGLE3_BESIDE | {f"{prefix}.{name}": own for name, own in (LAYER | NORMS).items()}
    found = renamed(tensors, names, (*REPEATED, "d2t"))
    values = sizes(inner, spec) | {
        "layers": fused_layers(config, spec),
        "vocab_size": len(found.get("head", ())),
        "norm_before_residual": config.flag("norm_before_residual", False),
    }
    if "d2t" in tensors:
        offsets = tensors["d2t"].long()
        values["draft_ids"] = (offsets + torch.arange(len(offsets))).tolist()
    return described(config, values, spec), found


def medusa(config: Fields, tensors: Mapping[str, Tensor], spec: ModelSpec) -> Translated:
    """Medusa's own layout, and vLLM's."""
    heads = 1 + max(int(number) for name in tensors for number in re.findall(r"\d+", name)[:1])
    names = dict[str, str]()
    for i in range(heads):
        for own, theirs in MEDUSA.items():
            names |= {name.format(i=i): f"{own}.{i}" for name in theirs}
    found = renamed(tensors, names, ())
    for i in range(heads):
        found.setdefault(f"block_bias.{i}", torch.zeros(spec.hidden_size))
    ranks = [[a * USUAL_FALL**i for a in USUAL_ACCURACY] for i in range(heads)]
    values = {"kind": "medusa", "shared_head": False, "accuracies": ranks}
    return described(config, values, spec), found


def renamed(
    tensors: Mapping[str, Tensor], names: Mapping[str, str], ignored: tuple[str, ...]
) -> dict[str, Tensor]:
    """The tensors by our names; those that no one knows keep theirs, and will be complained of."""
    dropped = {*ignored, *REPEATED}
    return {names.get(name, name): t for name, t in tensors.items() if name not in dropped}


def sizes(config: Fields, spec: ModelSpec) -> dict[str, Any]:
    """What a llama's config.json says of its layer."""
    heads = config.integer("num_attention_heads", high=bounds.HEADS)
    width = config.integer("hidden_size", high=bounds.WIDTH)
    return {
        "kind": "eagle",
        "hidden_size": width,
        "num_heads": heads,
        "num_kv_heads": config.integer("num_key_value_heads", heads, high=bounds.HEADS),
        "head_size": config.integer("head_dim", width // heads, high=bounds.WIDTH),
        "intermediate_size": config.integer("intermediate_size", high=bounds.WIDTH),
        "rope_theta": config.number("rope_theta", spec.rope_theta or 1e4, low=1, high=1e12),
        "norm_eps": config.number("rms_norm_eps", 1e-6, low=0, high=1),
    }


def fused_layers(config: Fields, spec: ModelSpec) -> list[int]:
    """Layers whose outputs are fused; files count the inputs of the layers after them."""
    usual = [2, spec.num_layers // 2, spec.num_layers - 3]
    inputs = config.integers("eagle_aux_hidden_state_layer_ids", usual, high=bounds.LAYERS)
    return [layer - 1 for layer in inputs]


def described(config: Fields, values: Mapping[str, Any], spec: ModelSpec) -> Fields:
    """The config with what the target has; a published head does not say whose it is."""
    made_for = {
        "name": "a published target",
        "hidden_size": values.get("hidden_size", spec.hidden_size),
        "vocab_size": spec.vocab_size,
        "num_layers": spec.num_layers,
    }
    return Fields({**values, "target": made_for}, config.path)
