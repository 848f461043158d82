"""Llama (arXiv 2302.13971, 2407.21783): biases only where its files say so."""

from __future__ import annotations

from collections.abc import Collection

from paceline.models.family import Family
from paceline.models.fields import Fields
from paceline.models.gguf_keys import spec_from_gguf
from paceline.models.hf_config import spec_from_hf
from paceline.models.spec import Biases, ModelSpec


def read_hf(config: Fields) -> ModelSpec:
    """`attention_bias` and `mlp_bias` of config.json."""
    attention = config.flag("attention_bias", False)
    mlp = config.flag("mlp_bias", False)
    return spec_from_hf(config, Biases(qkv=attention, attention_out=attention, mlp=mlp))


def read_gguf(keys: Fields, tensors: Collection[str]) -> ModelSpec:
    """Biases have no key; they are there or not."""
    biases = Biases(
        qkv="blk.0.attn_q.bias" in tensors,
        attention_out="blk.0.attn_output.bias" in tensors,
        mlp="blk.0.ffn_gate.bias" in tensors,
    )
    return spec_from_gguf(keys, tensors, biases)


FAMILY = Family(name="llama", read_hf=read_hf, read_gguf=read_gguf, gguf_interleaves_rope=True)
