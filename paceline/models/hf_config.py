"""The keys of config.json that most families share."""

from __future__ import annotations

import json
from pathlib import Path

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models import bounds
from paceline.models.fields import Fields
from paceline.models.spec import Biases, ModelSpec, RopeScaling


def read_config(folder: Path) -> Fields:
    """The key-values of a folder's config.json; raises ModelFileError."""
    path = folder / "config.json"
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelFileError(folder, "config.json", "is missing; is this a model?") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(path, "JSON", str(error)) from error
    if not isinstance(values, dict):
        raise ModelFileError(path, "JSON", "is no object")
    return Fields(values, path)


def spec_from_hf(config: Fields, biases: Biases) -> ModelSpec:
    """Read what most families share.

    Raises:
        ModelFileError: a key is missing or out of range.
        UnsupportedModelError: something that would change the result and has no implementation.
    """
    _refuse_unsupported(config)
    width = config.integer("hidden_size", high=bounds.WIDTH)
    heads = config.integer("num_attention_heads", high=bounds.HEADS)
    rope = config.group("rope_parameters" if "rope_parameters" in config else "rope_scaling")
    theta = rope if "rope_theta" in rope else config
    with config.fitting("sizes"):
        return ModelSpec(
            family=config.text("model_type"),
            vocab_size=config.integer("vocab_size", high=bounds.VOCAB),
            hidden_size=width,
            num_layers=config.integer("num_hidden_layers", high=bounds.LAYERS),
            num_heads=heads,
            num_kv_heads=config.integer("num_key_value_heads", heads, high=bounds.HEADS),
            head_size=config.integer("head_dim", width // heads, high=bounds.WIDTH),
            intermediate_size=config.integer("intermediate_size", high=bounds.WIDTH),
            max_model_len=config.integer("max_position_embeddings", high=bounds.CONTEXT),
            norm_eps=config.number("rms_norm_eps", 1e-6, low=0, high=1),
            rope_theta=theta.number("rope_theta", 1e4, low=1, high=1e12),
            rope_scaling=_rope_scaling(rope),
            biases=biases,
            tie_embeddings=config.flag("tie_word_embeddings", False),
        )


def _refuse_unsupported(config: Fields) -> None:
    """Refuse what would be computed wrongly."""
    activation = config.text("hidden_act", "silu")
    refusals = {
        f"hidden_act '{activation}'": activation not in ("silu", "swish"),
        "quantization_config": "quantization_config" in config,
        "sliding-window attention": config.flag("use_sliding_window", False),
        "partial_rotary_factor": config.number("partial_rotary_factor", 1.0, low=0, high=1) != 1,
    }
    for what, refused in refusals.items():
        if refused:
            raise UnsupportedModelError(f"{config.path}: {what} is not supported.")


def _rope_scaling(rope: Fields) -> RopeScaling | None:
    """Both spellings: `rope_type` or `type`; the factors beside it."""
    kind = rope.text("rope_type", rope.text("type", "default"))
    if kind == "default":
        return None
    if kind not in ("linear", "llama3"):
        raise UnsupportedModelError(f"{rope.path}: rope scaling '{kind}' is not supported.")
    factor = rope.number("factor", low=1, high=1e6)
    if kind == "linear":
        return RopeScaling(kind=kind, factor=factor)
    return RopeScaling(
        kind=kind,
        factor=factor,
        low_freq_factor=rope.number("low_freq_factor", low=0, high=1e6),
        high_freq_factor=rope.number("high_freq_factor", low=0, high=1e6),
        original_max_len=rope.integer("original_max_position_embeddings", high=bounds.CONTEXT),
    )
