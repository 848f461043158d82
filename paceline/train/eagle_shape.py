"""The sizes of an EAGLE layer for a target."""

from __future__ import annotations

from torch import Tensor

from paceline.drafters.eagle_layer import EagleShape
from paceline.errors import ConfigError
from paceline.models import ModelSpec

THETA = 1e4
"""Base of the rope where the target has none."""


def shape_of(
    spec: ModelSpec, mlp_width: int | None, draft_ids: Tensor | None, *, fused: bool
) -> EagleShape:
    """A layer like the target's own; with `fused`, EAGLE-3 on a low, a middle and a high layer.

    Raises:
        ConfigError: the target has too few layers to fuse three.
    """
    last = spec.num_layers - 1
    layers = (min(1, last // 2), spec.num_layers // 2, last) if fused else (last,)
    if len(set(layers)) != len(layers):
        raise ConfigError(
            f"EAGLE-3 fuses three layers and the target has {spec.num_layers}; train eagle instead."
        )
    return EagleShape(
        hidden_size=spec.hidden_size,
        num_heads=spec.num_heads,
        num_kv_heads=spec.num_kv_heads,
        head_size=spec.head_size,
        intermediate_size=mlp_width or spec.intermediate_size,
        rope_theta=spec.rope_theta or THETA,
        norm_eps=spec.norm_eps,
        vocab_size=spec.vocab_size if draft_ids is None else len(draft_ids),
        layers=layers,
    )
