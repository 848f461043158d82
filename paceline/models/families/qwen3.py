"""Qwen3 (arXiv 2505.09388), dense: each head of query and key is normed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from paceline.models.family import Family
from paceline.models.fields import Fields
from paceline.models.gguf_keys import spec_from_gguf
from paceline.models.hf_config import spec_from_hf, upper_window
from paceline.models.spec import Biases, ModelSpec, Norms

NORMS = Norms(heads=True)


def read_hf(config: Fields) -> ModelSpec:
    """`attention_bias`, and a window on the upper layers."""
    attention = config.flag("attention_bias", False)
    spec = spec_from_hf(config, Biases(qkv=attention, attention_out=attention))
    return replace(spec, norms=NORMS, window=upper_window(config, spec.num_layers))


def read_gguf(keys: Fields, tensors: Collection[str]) -> ModelSpec:
    """Biases have no key; they are there or not."""
    biases = Biases(
        qkv="blk.0.attn_q.bias" in tensors, attention_out="blk.0.attn_output.bias" in tensors
    )
    return replace(spec_from_gguf(keys, tensors, biases), norms=NORMS)


FAMILY = Family(name="qwen3", read_hf=read_hf, read_gguf=read_gguf)
