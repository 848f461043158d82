"""A spec and its weights -> the program of a pre-norm decoder with rotary attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from paceline.kernels.ops import (
    LOGITS,
    Add,
    Attend,
    Embed,
    LayerEnd,
    Linear,
    LogitRows,
    Op,
    Program,
    RMSNorm,
    Rope,
    Rotation,
    SiluMul,
)
from paceline.kernels.packed import PackedWeight
from paceline.models.spec import ModelSpec, rope_frequencies

Weights = Mapping[str, Tensor | PackedWeight]
"""Tensors and packed matrices by the names of `family.tensor_shapes`."""


def build_program(spec: ModelSpec, weights: Weights, head_ids: int | None = None) -> Program:
    """The whole pass: embedding, layers, and the head for the logit rows alone.

    With `head_ids` the logits are those of the first so many ids, [N, head_ids].
    """
    head = weights["embed" if spec.tie_embeddings else "head"]
    if head_ids is not None:
        head = head.first_rows(head_ids) if isinstance(head, PackedWeight) else head[:head_ids]
    return Program(
        ops=(
            Embed(out="x", table=weights["embed"]),
            Rotation(out="rotation", frequencies=frequencies(spec, weights)),
            *(op for layer in range(spec.num_layers) for op in _layer(spec, weights, layer)),
            LogitRows(source="x", out="x"),
            RMSNorm(source="x", out="x", scale=vector(weights, "final_norm"), eps=spec.norm_eps),
            Linear(source="x", out=LOGITS, weight=head),
        )
    )


def frequencies(spec: ModelSpec, weights: Weights) -> Tensor:
    """frequencies[D / 2] float32, divided by the file's own factors where it has them."""
    device = weights["embed"].device
    plain = torch.tensor(rope_frequencies(spec), dtype=torch.float32, device=device)
    return plain / vector(weights, "rope_factors").float() if "rope_factors" in weights else plain


def vector(weights: Weights, name: str) -> Tensor:
    """A tensor that is no matrix, hence never packed."""
    tensor = weights[name]
    assert isinstance(tensor, Tensor)
    return tensor


def _layer(spec: ModelSpec, weights: Weights, layer: int) -> Iterator[Op]:
    """x + attention(norm(x)), then x + mlp(norm(x))."""
    yield from _attention(spec, weights, layer)
    yield from _mlp(spec, weights, layer)
    yield LayerEnd(layer=layer, source="x")


def _attention(spec: ModelSpec, weights: Weights, layer: int) -> Iterator[Op]:
    yield _norm(spec, weights, layer, "attention_norm")
    for name in ("query", "key", "value"):
        yield _linear(weights, layer, name, "normed", name)
    for name in ("query", "key"):
        yield Rope(source=name, out=name, rotation="rotation")
    yield Attend(
        layer=layer,
        query="query",
        key="key",
        value="value",
        out="attended",
        num_heads=spec.num_heads,
        num_kv_heads=spec.num_kv_heads,
        head_size=spec.head_size,
    )
    yield _linear(weights, layer, "attention_out", "attended", "delta")
    yield Add(left="x", right="delta", out="x")


def _mlp(spec: ModelSpec, weights: Weights, layer: int) -> Iterator[Op]:
    yield _norm(spec, weights, layer, "mlp_norm")
    for name in ("gate", "up"):
        yield _linear(weights, layer, name, "normed", name)
    yield SiluMul(gate="gate", up="up", out="gated")
    yield _linear(weights, layer, "down", "gated", "delta")
    yield Add(left="x", right="delta", out="x")


def _norm(spec: ModelSpec, weights: Weights, layer: int, name: str) -> RMSNorm:
    scale = vector(weights, f"{name}.{layer}")
    return RMSNorm(source="x", out="normed", scale=scale, eps=spec.norm_eps)


def _linear(weights: Weights, layer: int, name: str, source: str, out: str) -> Linear:
    bias = f"{name}_bias.{layer}"
    return Linear(
        source=source,
        out=out,
        weight=weights[f"{name}.{layer}"],
        bias=vector(weights, bias) if bias in weights else None,
    )
