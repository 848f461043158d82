"""A spec and its weights -> the program of a pre-norm decoder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.kernels.ops import (
    LOGITS,
    Add,
    Attend,
    Embed,
    EmbedPosition,
    Gelu,
    GeluMul,
    LayerEnd,
    LayerNorm,
    Linear,
    LogitRows,
    Matrix,
    Op,
    Program,
    RMSNorm,
    Rope,
    Rotation,
    SiluMul,
    SoftCap,
)
from paceline.kernels.packed import PackedWeight
from paceline.models.spec import ModelSpec, Window, rope_frequencies

Weights = Mapping[str, Matrix]
"""Tensors and packed matrices by the names of `family.tensor_shapes`."""


def build_program(
    spec: ModelSpec,
    weights: Weights,
    head_ids: int | None = None,
    kept: Collection[int] | None = None,
) -> Program:
    """The whole pass: embedding, layers, and the head for the logit rows alone.

    With `head_ids` the logits are those of the first so many ids, [N, head_ids]; with `kept` only
    those layers run, on their own keys and values.
    """
    numbers = range(spec.num_layers) if kept is None else sorted(kept)
    layers = (Layer(spec, weights, layer) for layer in numbers)
    ops = [*_embedding(spec, weights), *(op for layer in layers for op in layer.ops())]
    return Program(ops=(*ops, *_head(spec, weights, head_ids)))


def vector(weights: Weights, name: str) -> Tensor:
    """A tensor that is never packed."""
    tensor = weights[name]
    assert isinstance(tensor, Tensor)
    return tensor


def _embedding(spec: ModelSpec, weights: Weights) -> Iterator[Op]:
    """Tokens, and positions: learned, or as what rope turns heads by."""
    yield Embed(out="x", table=weights["embed"], scale=spec.embedding_scale)
    if spec.rope_theta is None:
        yield EmbedPosition(out="position", table=vector(weights, "positions"))
        yield Add(left="x", right="position", out="x")
    else:
        yield Rotation(out="rotation", frequencies=frequencies(spec, weights))
    if spec.window is not None and spec.window.rope_theta is not None:
        near = rope_frequencies(spec.head_size, spec.window.rope_theta)
        yield Rotation(out="near_rotation", frequencies=_like(weights["embed"], near))


def frequencies(spec: ModelSpec, weights: Weights) -> Tensor:
    """frequencies[D / 2] float32, divided by the file's own factors where it has them."""
    assert spec.rope_theta is not None
    plain = rope_frequencies(spec.head_size, spec.rope_theta, spec.rope_scaling)
    found = _like(weights["embed"], plain)
    return found / vector(weights, "rope_factors").float() if "rope_factors" in weights else found


def _head(spec: ModelSpec, weights: Weights, head_ids: int | None) -> Iterator[Op]:
    yield LogitRows(source="x", out="x")
    yield _norm(spec, weights, "final_norm", "x", "x")
    head = weights["embed" if spec.tie_embeddings else "head"]
    if head_ids is not None:
        head = head.first_rows(head_ids) if isinstance(head, PackedWeight) else head[:head_ids]
    yield Linear(source="x", out=LOGITS, weight=head)
    if spec.soft_caps.logits is not None:
        yield SoftCap(source=LOGITS, out=LOGITS, cap=spec.soft_caps.logits)


@dataclass(frozen=True)
class Layer:
    """One layer: x + attention(norm(x)), then x + mlp(norm(x))."""

    spec: ModelSpec
    weights: Weights
    index: int

    @property
    def window(self) -> Window | None:
        """What it sees, where that is not all."""
        found = self.spec.window
        return found if found is not None and self.index in found.layers else None

    def ops(self) -> Iterator[Op]:
        """Its operations on register x."""
        yield self.norm("attention_norm", "x", "normed")
        yield from self.attention()
        yield from self.residual("attention_after_norm")
        yield self.norm("mlp_norm", "x", "normed")
        yield from self.mlp()
        yield from self.residual("mlp_after_norm")
        yield LayerEnd(layer=self.index, source="x")

    def attention(self) -> Iterator[Op]:
        """normed -> delta."""
        spec, window = self.spec, self.window
        for name in ("query", "key", "value"):
            yield self.linear(name, "normed", name)
        own_rope = window is not None and window.rope_theta is not None
        for name, heads in (("query", spec.num_heads), ("key", spec.num_kv_heads)):
            if spec.norms.heads:
                scale = vector(self.weights, f"{name}_norm.{self.index}")
                yield RMSNorm(source=name, out=name, scale=scale, eps=spec.norm_eps, heads=heads)
            if spec.rope_theta is not None:
                rotation = "near_rotation" if own_rope else "rotation"
                yield Rope(source=name, out=name, rotation=rotation)
        yield self.attend()
        yield self.linear("attention_out", "attended", "delta")

    def attend(self) -> Attend:
        """query, key, value -> attended."""
        spec = self.spec
        return Attend(
            layer=self.index,
            query="query",
            key="key",
            value="value",
            out="attended",
            num_heads=spec.num_heads,
            num_kv_heads=spec.num_kv_heads,
            head_size=spec.head_size,
            scale=spec.head_size**-0.5 if spec.attention_scale is None else spec.attention_scale,
            window=None if self.window is None else self.window.tokens,
            soft_cap=spec.soft_caps.scores,
        )

    def mlp(self) -> Iterator[Op]:
        """normed -> delta."""
        spec = self.spec
        if spec.gated:
            yield self.linear("gate", "normed", "gate")
        yield self.linear("up", "normed", "up")
        if not spec.gated:
            yield Gelu(source="up", out="gated")
        elif spec.activation == "silu":
            yield SiluMul(gate="gate", up="up", out="gated")
        else:
            yield GeluMul(gate="gate", up="up", out="gated")
        yield self.linear("down", "gated", "delta")

    def residual(self, norm: str) -> Iterator[Op]:
        """x += delta."""
        if self.spec.norms.after:
            yield self.norm(norm, "delta", "delta")
        yield Add(left="x", right="delta", out="x")

    def norm(self, name: str, source: str, out: str) -> Op:
        """Of whole rows."""
        return _norm(self.spec, self.weights, f"{name}.{self.index}", source, out)

    def linear(self, name: str, source: str, out: str) -> Linear:
        """A product, with a bias where the weights hold one."""
        bias = f"{name}_bias.{self.index}"
        return Linear(
            source=source,
            out=out,
            weight=self.weights[f"{name}.{self.index}"],
            bias=vector(self.weights, bias) if bias in self.weights else None,
        )


def _norm(spec: ModelSpec, weights: Weights, name: str, source: str, out: str) -> Op:
    scale, (stem, dot, layer) = vector(weights, name), name.partition(".")
    if spec.norms.centred:
        bias = vector(weights, f"{stem}_bias{dot}{layer}")
        return LayerNorm(source=source, out=out, scale=scale, bias=bias, eps=spec.norm_eps)
    return RMSNorm(source=source, out=out, scale=scale, eps=spec.norm_eps)


def _like(table: Matrix, numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32, device=table.device)
