"""Gemma 3 (arXiv 2503.19786), text alone: most layers see a window, with a rope of their own.

Every norm's scale is 1 + w, which GGUF files hold and Hugging Face's leave at w.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from paceline.errors import UnsupportedModelError
from paceline.models import bounds
from paceline.models.family import USUAL_GGUF_NAMES, USUAL_HF_NAMES, Family
from paceline.models.fields import Fields
from paceline.models.gguf_keys import spec_from_gguf
from paceline.models.hf_config import activation, rope_fields, spec_from_hf, window_of
from paceline.models.spec import Biases, ModelSpec, Norms, SoftCaps

PATTERN = 6
"""Every so manyth layer sees all keys, where the files do not say."""
LOCAL_THETA = 1e4
LARGEST_LAYERS = 62
"""Layers of the 27B model, whose scores GGUF means to be scaled by its E / H in place of D."""


def read_hf(config: Fields) -> ModelSpec:
    """The keys of `gemma3_text`."""
    _refuse_unsupported(config)
    attention = config.flag("attention_bias", False)
    spec = spec_from_hf(config, Biases(qkv=attention, attention_out=attention))
    rope = rope_fields(config, "sliding_attention")
    theta, key = (rope, "rope_theta") if "rope_theta" in rope else (config, "rope_local_base_freq")
    local_theta = theta.number(key, LOCAL_THETA, low=1, high=1e12)
    pattern = config.integer("sliding_window_pattern", PATTERN, high=bounds.LAYERS)
    scale = config.number("query_pre_attn_scalar", 256.0, low=1e-3, high=1e6) ** -0.5
    return replace(
        _usual(spec),
        activation=activation(config, "hidden_activation", "gelu_pytorch_tanh"),
        window=window_of(config, _local(spec.num_layers, pattern), local_theta),
        attention_scale=scale,
        soft_caps=_soft_caps(config),
        tie_embeddings=config.flag("tie_word_embeddings", True),
    )


def read_gguf(keys: Fields, tensors: Collection[str]) -> ModelSpec:
    """The usual keys, and those of the window and the caps."""
    spec = spec_from_gguf(keys, tensors, Biases())
    pattern = keys.integer("attention.sliding_window_pattern", PATTERN, high=bounds.LAYERS)
    window = spec.window and replace(
        spec.window,
        layers=frozenset(_local(spec.num_layers, pattern)),
        rope_theta=keys.number("rope.freq_base_swa", LOCAL_THETA, low=1, high=1e12),
    )
    large = spec.num_layers == LARGEST_LAYERS
    per_head = spec.hidden_size / spec.num_heads if large else spec.head_size
    return replace(
        _usual(spec),
        window=window,
        attention_scale=keys.number("attention.scale", per_head**-0.5, low=1e-3, high=1e3),
        soft_caps=_soft_caps(keys),
    )


def _usual(spec: ModelSpec) -> ModelSpec:
    return replace(
        spec,
        family="gemma3",
        norms=Norms(heads=True, after=True),
        activation="gelu",
        embedding_scale=spec.hidden_size**0.5,
    )


def _local(layers: int, pattern: int) -> Iterable[int]:
    return (layer for layer in range(layers) if (layer + 1) % pattern)


def _soft_caps(fields: Fields) -> SoftCaps:
    """Both kinds of file have the same keys."""
    scores, logits = (
        fields.number(key, low=1e-3, high=1e6) if key in fields else None
        for key in ("attn_logit_softcapping", "final_logit_softcapping")
    )
    return SoftCaps(scores=scores, logits=logits)


def _refuse_unsupported(config: Fields) -> None:
    if "text_config" in config:
        raise UnsupportedModelError(
            f"{config.path}: a model that reads images is not supported; use its text model."
        )
    if config.flag("use_bidirectional_attention", False):
        raise UnsupportedModelError(f"{config.path}: use_bidirectional_attention is not supported.")


FAMILY = Family(
    name="gemma3",
    read_hf=read_hf,
    read_gguf=read_gguf,
    hf_norm_offset=1.0,
    hf_names={
        **USUAL_HF_NAMES,
        "attention_after_norm": "model.layers.{i}.post_attention_layernorm.weight",
        "mlp_norm": "model.layers.{i}.pre_feedforward_layernorm.weight",
        "mlp_after_norm": "model.layers.{i}.post_feedforward_layernorm.weight",
    },
    gguf_names={
        **USUAL_GGUF_NAMES,
        "attention_after_norm": "blk.{i}.post_attention_norm.weight",
        "mlp_after_norm": "blk.{i}.post_ffw_norm.weight",
    },
)
