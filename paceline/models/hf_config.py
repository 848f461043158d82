"""The keys of config.json that most families share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models import bounds
from paceline.models.fields import Fields
from paceline.models.spec import Activation, Biases, ModelSpec, RopeScaling, Window

_ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {"silu": "silu", "swish": "silu", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu"}
)
"""By config.json's names."""


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
    rope = rope_fields(config, "full_attention")
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
            activation=activation(config, "hidden_act", "silu"),
            tie_embeddings=config.flag("tie_word_embeddings", False),
        )


def rope_fields(config: Fields, layers: str) -> Fields:
    """The rope of some kind of layers, by either name, for each kind by itself or for all."""
    rope = config.group("rope_parameters" if "rope_parameters" in config else "rope_scaling")
    return rope.group(layers) if layers in rope else rope


def activation(config: Fields, key: str, default: str) -> Activation:
    """The MLP's activation; raises UnsupportedModelError."""
    name = config.text(key, default)
    if name not in _ACTIVATIONS:
        raise UnsupportedModelError(f"{config.path}: {key} '{name:.80}' is not supported.")
    return _ACTIVATIONS[name]


def window_of(
    config: Fields, layers: Iterable[int], rope_theta: float | None = None
) -> Window | None:
    """Those layers' `sliding_window`; which they are `layer_types` says where it is there."""
    if "sliding_window" not in config:
        return None
    if "layer_types" in config:
        kinds = config.words("layer_types")
        if unknown := set(kinds) - {"full_attention", "sliding_attention"}:
            raise UnsupportedModelError(
                f"{config.path}: the layer type '{min(unknown):.80}' is not supported."
            )
        layers = (i for i, kind in enumerate(kinds) if kind == "sliding_attention")
    chosen = frozenset(layers)
    if not chosen:
        return None
    tokens = config.integer("sliding_window", high=bounds.CONTEXT)
    return Window(tokens=tokens, layers=chosen, rope_theta=rope_theta)


def upper_window(config: Fields, num_layers: int) -> Window | None:
    """The window of the layers from `max_window_layers` on, where `use_sliding_window` is set."""
    if not config.flag("use_sliding_window", False):
        return None
    first = config.integer("max_window_layers", 0, low=0, high=bounds.LAYERS)
    return window_of(config, range(first, num_layers))


def _refuse_unsupported(config: Fields) -> None:
    """Refuse what would be computed wrongly."""
    refusals = {
        "quantization_config": "quantization_config" in config,
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
