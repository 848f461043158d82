"""Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115): a bias on query, key and value, always."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from paceline.models.family import Family
from paceline.models.fields import Fields
from paceline.models.gguf_keys import spec_from_gguf
from paceline.models.hf_config import spec_from_hf, upper_window
from paceline.models.spec import Biases, ModelSpec

BIASES = Biases(qkv=True)


def read_hf(config: Fields) -> ModelSpec:
    """The usual keys, and a window on the upper layers."""
    spec = spec_from_hf(config, BIASES)
    return replace(spec, window=upper_window(config, spec.num_layers))


def read_gguf(keys: Fields, tensors: Collection[str]) -> ModelSpec:
    """The usual keys."""
    return spec_from_gguf(keys, tensors, BIASES)


FAMILY = Family(name="qwen2", read_hf=read_hf, read_gguf=read_gguf)
