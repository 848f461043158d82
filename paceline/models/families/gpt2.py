"""GPT-2 (Radford et al., 2019): learned positions, LayerNorm, a bias everywhere, no gate."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from paceline.errors import ModelError, UnsupportedModelError
from paceline.models import bounds
from paceline.models.family import USUAL_GGUF_NAMES, Family
from paceline.models.fields import Fields
from paceline.models.gguf_keys import vocab_size
from paceline.models.hf_config import activation
from paceline.models.spec import Biases, ModelSpec, Norms


def read_hf(config: Fields) -> ModelSpec:
    """GPT-2's own keys."""
    for key in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        if config.flag(key, False):
            raise UnsupportedModelError(f"{config.path}: {key} is not supported.")
    if not config.flag("scale_attn_weights", True):
        raise UnsupportedModelError(f"{config.path}: scale_attn_weights: false is not supported.")
    if activation(config, "activation_function", "gelu_new") != "gelu":
        raise UnsupportedModelError(f"{config.path}: activation_function must be a gelu.")
    width = config.integer("n_embd", high=bounds.WIDTH)
    return _spec(
        config,
        vocab_size=config.integer("vocab_size", high=bounds.VOCAB),
        hidden_size=width,
        num_layers=config.integer("n_layer", high=bounds.LAYERS),
        num_heads=config.integer("n_head", high=bounds.HEADS),
        intermediate_size=config.integer("n_inner", 4 * width, high=bounds.WIDTH),
        max_model_len=config.integer("n_positions", high=bounds.CONTEXT),
        norm_eps=config.number("layer_norm_epsilon", 1e-5, low=0, high=1),
        tie_embeddings=config.flag("tie_word_embeddings", True),
    )


def read_gguf(keys: Fields, tensors: Collection[str]) -> ModelSpec:
    """GGUF's usual keys, without rope."""
    return _spec(
        keys,
        vocab_size=vocab_size(keys),
        hidden_size=keys.integer("embedding_length", high=bounds.WIDTH),
        num_layers=keys.integer("block_count", high=bounds.LAYERS),
        num_heads=keys.integer("attention.head_count", high=bounds.HEADS),
        intermediate_size=keys.integer("feed_forward_length", high=bounds.WIDTH),
        max_model_len=keys.integer("context_length", high=bounds.CONTEXT),
        norm_eps=keys.number("attention.layer_norm_epsilon", low=0, high=1),
        tie_embeddings="output.weight" not in tensors,
    )


def _spec(fields: Fields, *, hidden_size: int, num_heads: int, **sizes: Any) -> ModelSpec:
    with fields.fitting("sizes"):
        if hidden_size % num_heads:
            raise ModelError(f"{num_heads} heads cannot share {hidden_size} evenly.")
        return ModelSpec(
            family="gpt2",
            hidden_size=hidden_size,
            num_heads=num_heads,
            num_kv_heads=num_heads,
            head_size=hidden_size // num_heads,
            rope_theta=None,
            biases=Biases(qkv=True, attention_out=True, mlp=True),
            norms=Norms(centred=True),
            activation="gelu",
            gated=False,
            **sizes,
        )


FAMILY = Family(
    name="gpt2",
    read_hf=read_hf,
    read_gguf=read_gguf,
    hf_prefix="transformer.",
    hf_transposed=("query", "key", "value", "attention_out", "up", "down"),
    hf_names={
        "embed": "transformer.wte.weight",
        "positions": "transformer.wpe.weight",
        "final_norm": "transformer.ln_f.weight",
        "head": "lm_head.weight",
        "attention_norm": "transformer.h.{i}.ln_1.weight",
        "query": "transformer.h.{i}.attn.c_attn.weight",
        "key": "transformer.h.{i}.attn.c_attn.weight",
        "value": "transformer.h.{i}.attn.c_attn.weight",
        "attention_out": "transformer.h.{i}.attn.c_proj.weight",
        "mlp_norm": "transformer.h.{i}.ln_2.weight",
        "up": "transformer.h.{i}.mlp.c_fc.weight",
        "down": "transformer.h.{i}.mlp.c_proj.weight",
    },
    gguf_names={
        **USUAL_GGUF_NAMES,
        "positions": "position_embd.weight",
        "query": "blk.{i}.attn_qkv.weight",
        "key": "blk.{i}.attn_qkv.weight",
        "value": "blk.{i}.attn_qkv.weight",
    },
    redundant=(".attn.bias", ".attn.masked_bias"),
)
