"""Mistral (arXiv 2310.06825): a llama whose every layer has a sliding window, where it has one.

GGUF knows these models as llama and keeps them so.
"""

from __future__ import annotations

from dataclasses import replace

from paceline.models.families import llama
from paceline.models.family import Family
from paceline.models.fields import Fields
from paceline.models.hf_config import spec_from_hf, window_of
from paceline.models.spec import Biases, ModelSpec


def read_hf(config: Fields) -> ModelSpec:
    """`sliding_window`, which later models have as null."""
    spec = spec_from_hf(config, Biases())
    return replace(spec, window=window_of(config, range(spec.num_layers)))


FAMILY: Family = replace(llama.FAMILY, name="mistral", read_hf=read_hf)
