"""A spec in other people's words: transformers' configs, the keys of GGUF."""

from __future__ import annotations

from typing import Any

import gguf
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig
from transformers.masking_utils import eager_mask
from transformers.models.gemma3 import modeling_gemma3

from paceline.models.spec import ModelSpec

ARCHITECTURES = {"mistral": "llama"}
"""GGUF's names of families, where they are others."""


def hf_config(spec: ModelSpec) -> Any:
    """transformers' config of a spec."""
    own = {"gemma3": _gemma3, "gpt2": _gpt2}.get(spec.family, _usual)
    config = AutoConfig.for_model(
        **own(spec),
        vocab_size=spec.vocab_size,
        tie_word_embeddings=spec.tie_embeddings,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=None,
        use_cache=False,
    )
    config._attn_implementation = "eager"
    if spec.soft_caps.scores is not None:
        config._attn_implementation = "capped"
    return config


def hf_rope(spec: ModelSpec) -> dict[str, object]:
    """The `rope_parameters` of config.json."""
    scaling = spec.rope_scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": spec.rope_theta}
    found: dict[str, object] = {
        "rope_type": scaling.kind, "rope_theta": spec.rope_theta, "factor": scaling.factor
    }  # fmt: skip
    if scaling.kind == "llama3":
        found |= {
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_max_len,
        }
    return found


def _usual(spec: ModelSpec) -> dict[str, Any]:
    window = spec.window
    if spec.family.startswith("qwen"):
        first = spec.num_layers if window is None else min(window.layers)
        layers = {"use_sliding_window": window is not None, "max_window_layers": first}
    else:
        layers = {}
    return {
        "model_type": spec.family,
        "hidden_size": spec.hidden_size,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": spec.num_heads,
        "num_key_value_heads": spec.num_kv_heads,
        "head_dim": spec.head_size,
        "intermediate_size": spec.intermediate_size,
        "max_position_embeddings": spec.max_model_len,
        "rms_norm_eps": spec.norm_eps,
        "rope_parameters": hf_rope(spec),
        "attention_bias": spec.biases.attention_out,
        "mlp_bias": spec.biases.mlp,
        "sliding_window": None if window is None else window.tokens,
        **layers,
    }


def _gemma3(spec: ModelSpec) -> dict[str, Any]:
    window = spec.window
    assert window is not None
    assert spec.attention_scale is not None
    kinds = {True: "sliding_attention", False: "full_attention"}
    near = {"rope_type": "default", "rope_theta": window.rope_theta}
    return {
        **_usual(spec),
        "model_type": "gemma3_text",
        "layer_types": [kinds[layer in window.layers] for layer in range(spec.num_layers)],
        "rope_parameters": {"full_attention": hf_rope(spec), "sliding_attention": near},
        "query_pre_attn_scalar": round(spec.attention_scale**-2),
        "attn_logit_softcapping": spec.soft_caps.scores,
        "final_logit_softcapping": spec.soft_caps.logits,
    }


def _gpt2(spec: ModelSpec) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "n_embd": spec.hidden_size,
        "n_layer": spec.num_layers,
        "n_head": spec.num_heads,
        "n_inner": spec.intermediate_size,
        "n_positions": spec.max_model_len,
        "layer_norm_epsilon": spec.norm_eps,
    }


def _capped(module: Any, *tensors: Any, **options: Any) -> Any:
    """transformers has the cap in its formula, and in the config, but no model that joins them."""
    cap = module.attn_logit_softcapping
    return modeling_gemma3.eager_attention_forward(module, *tensors, softcap=cap, **options)


AttentionInterface.register("capped", _capped)
AttentionMaskInterface.register("capped", eager_mask)


def write_keys(writer: Any, spec: ModelSpec) -> None:
    """The sizes and constants of a spec as a converter to GGUF writes them."""
    writer.add_context_length(spec.max_model_len)
    writer.add_embedding_length(spec.hidden_size)
    writer.add_block_count(spec.num_layers)
    writer.add_feed_forward_length(spec.intermediate_size)
    writer.add_head_count(spec.num_heads)
    writer.add_head_count_kv(spec.num_kv_heads)
    if spec.norms.centred:
        writer.add_layer_norm_eps(spec.norm_eps)
    else:
        writer.add_layer_norm_rms_eps(spec.norm_eps)
    if spec.rope_theta is not None:
        writer.add_key_length(spec.head_size)
        writer.add_value_length(spec.head_size)
        writer.add_rope_freq_base(spec.rope_theta)
        writer.add_rope_dimension_count(spec.head_size)
    if spec.rope_scaling is not None and spec.rope_scaling.kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(spec.rope_scaling.factor)
    _write_attention(writer, spec)


def _write_attention(writer: Any, spec: ModelSpec) -> None:
    if spec.window is not None:
        writer.add_sliding_window(spec.window.tokens)
        if spec.window.rope_theta is not None:
            pattern = 1 + min(set(range(spec.num_layers)) - spec.window.layers)
            writer.add_sliding_window_pattern(pattern)
    if spec.attention_scale is not None:
        writer.add_attention_scale(spec.attention_scale)
    if spec.soft_caps.scores is not None:
        writer.add_attn_logit_softcapping(spec.soft_caps.scores)
    if spec.soft_caps.logits is not None:
        writer.add_final_logit_softcapping(spec.soft_caps.logits)
