"""The one decoder layer of EAGLE and EAGLE-3, as a program on the target's own embedding and head.

Row j of a text is token t_j and what the target thought before it, the feature of position j - 1.

EAGLE (arXiv 2401.15077): features are the target's normed last states. The layer's input is
fuse(embedding | feature), its output is the guess of feature j, which the target's head reads.
EAGLE-3 (2503.01840): features are fuse(low | middle | high states). Attention reads the normed
embedding beside the normed feature; the output is normed for a head of its own, and is the next
row's feature as it is. Published layouts hold exactly these weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from paceline.drafters.parts import TargetParts, dense, laid_out
from paceline.kernels import ops
from paceline.kernels.ops import LOGITS, Matrix, Op, Program
from paceline.models import bounds
from paceline.models.fields import Fields
from paceline.models.spec import rope_frequencies

FUSED = 3
"""Layers whose states EAGLE-3 fuses."""


@dataclass(frozen=True, kw_only=True)
class EagleShape:
    """The sizes of an EAGLE layer."""

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    intermediate_size: int
    rope_theta: float
    norm_eps: float
    vocab_size: int
    """Ids it drafts from."""
    layers: tuple[int, ...]
    """Target layers whose states are its features: the last one, or FUSED of them."""
    norm_before_residual: bool = False
    """What attention is added to is the normed feature, in EAGLE-3 as some publish it."""

    @property
    def fuses(self) -> bool:
        """Whether it is EAGLE-3."""
        return len(self.layers) > 1

    @classmethod
    def read(cls, config: Fields) -> EagleShape:
        """From config.json; raises ModelFileError."""
        layers = config.integers("layers", high=bounds.LAYERS)
        if len(layers) not in (1, FUSED):
            raise config.fault("layers", f"names {len(layers)} layers, neither 1 nor {FUSED}")
        sizes = {
            name: config.integer(name, high=bounds.VOCAB)
            for name in (
                *("hidden_size", "num_heads", "num_kv_heads", "head_size"),
                *("intermediate_size", "vocab_size"),
            )
        }
        if sizes["num_heads"] % sizes["num_kv_heads"] or sizes["head_size"] % 2:
            raise config.fault("num_heads", "the heads do not fit one another")
        return cls(
            rope_theta=config.number("rope_theta", low=1, high=1e12),
            norm_eps=config.number("norm_eps", low=0, high=1),
            layers=tuple(layers),
            norm_before_residual=config.flag("norm_before_residual", False),
            **sizes,
        )

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the layer."""
        E, F, D = self.hidden_size, self.intermediate_size, self.head_size
        Q, KV, read = self.num_heads * D, self.num_kv_heads * D, E * (2 if self.fuses else 1)
        shapes: dict[str, tuple[int, ...]] = {
            "query": (Q, read), "key": (KV, read), "value": (KV, read), "attention_out": (E, Q),
            "mlp_norm": (E,), "gate": (F, E), "up": (F, E), "down": (E, F),
        }  # fmt: skip
        if not self.fuses:
            return {"fuse": (E, 2 * E), "fuse_bias": (E,), **shapes}
        return {
            "fuse": (E, FUSED * E), "embed_norm": (E,), "feature_norm": (E,), **shapes,
            "final_norm": (E,), "head": (self.vocab_size, E),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class EagleLayer:
    """The layer's weights beside the target's parts."""

    shape: EagleShape
    tensors: Mapping[str, Tensor]
    parts: TargetParts
    draft_ids: Tensor | None
    """draft_ids[vocab_size]: the target's id of each drafted one; None: they are the same."""
    quantize: str | None = None
    """Run its matrices, and the rows of the target's head that it reads, as int8 or int4."""

    def matrix(self, name: str, start: int = 0, stop: int | None = None) -> Matrix:
        """Some columns of a matrix, laid out as the target's are."""
        columns = self.tensors[name][:, start:stop].contiguous()
        return laid_out(columns, self.parts.head.weight, self.quantize)

    @property
    def program(self) -> Program:
        """(ids, features) -> logits[N, vocab_size] and, as layer 0, the next rows' features."""
        read = self._keys_and_values
        return Program(ops=(*read, *self._attention(), *self._mlp(), *self._head()))

    @property
    def filling(self) -> Program:
        """(ids, features) -> the rows' keys and values in the cache, and nothing else: nobody asks
        what such rows guess, so their keys stand for the queries and for the logits.
        """
        attend = self._attend("key", self.shape.num_kv_heads)
        return Program(
            ops=(*self._keys_and_values, attend, ops.LogitRows(source="key", out=LOGITS))
        )

    @cached_property
    def _keys_and_values(self) -> tuple[Op, ...]:
        """What both programs begin with; its weights are laid out once."""
        return (*self._inputs(), *self._read("key"), *self._read("value"), rope("key"))

    def _inputs(self) -> Iterator[Op]:
        E, table = self.shape.hidden_size, self.parts.embed
        yield ops.Embed(out="embedded", table=table.table, scale=table.scale)
        yield ops.Features(out="feature", size=E)
        frequencies = rope_frequencies(self.shape.head_size, self.shape.rope_theta)
        on = self.parts.head.weight.device
        yield ops.Rotation(out="rotation", frequencies=torch.tensor(frequencies, device=on))
        if self.shape.fuses:
            yield self._norm("embed_norm", "embedded", "read_embedded")
            yield self._norm("feature_norm", "feature", "read_feature")
        else:
            yield ops.Linear(source="embedded", out="x", weight=self.matrix("fuse", 0, E))
            bias = self.tensors["fuse_bias"].to(on)
            weight = self.matrix("fuse", E)
            yield ops.Linear(source="feature", out="part_x", weight=weight, bias=bias)
            yield ops.Add(left="x", right="part_x", out="x")

    def _attention(self) -> Iterator[Op]:
        shape = self.shape
        yield from self._read("query")
        yield rope("query")
        yield self._attend("query", shape.num_heads)
        yield ops.Linear(source="attended", out="delta", weight=self.matrix("attention_out"))
        beside = "read_feature" if shape.norm_before_residual else "feature"
        yield ops.Add(left=beside if shape.fuses else "x", right="delta", out="x")

    def _attend(self, query: str, heads: int) -> Op:
        size = self.shape.head_size
        return ops.Attend(
            layer=0, query=query, key="key", value="value", out="attended", num_heads=heads,
            num_kv_heads=self.shape.num_kv_heads, head_size=size, scale=size**-0.5,
        )  # fmt: skip

    def _read(self, name: str) -> Iterator[Op]:
        """What attention reads: x, or the normed embedding beside the normed feature."""
        if not self.shape.fuses:
            yield ops.Linear(source="x", out=name, weight=self.matrix(name))
            return
        E, part = self.shape.hidden_size, f"part_{name}"
        yield ops.Linear(source="read_embedded", out=name, weight=self.matrix(name, 0, E))
        yield ops.Linear(source="read_feature", out=part, weight=self.matrix(name, E))
        yield ops.Add(left=name, right=part, out=name)

    def _mlp(self) -> Iterator[Op]:
        yield self._norm("mlp_norm", "x", "normed")
        for name in ("gate", "up"):
            yield ops.Linear(source="normed", out=name, weight=self.matrix(name))
        yield ops.SiluMul(gate="gate", up="up", out="gated")
        yield ops.Linear(source="gated", out="delta", weight=self.matrix("down"))
        yield ops.Add(left="x", right="delta", out="x")
        yield ops.LayerEnd(layer=0, source="x")

    def _head(self) -> Iterator[Op]:
        yield ops.LogitRows(source="x", out="x")
        if self.shape.fuses:
            yield self._norm("final_norm", "x", "x")
            yield ops.Linear(source="x", out=LOGITS, weight=self.matrix("head"))
            return
        head = self.parts.head.weight
        if self.draft_ids is not None:
            head = laid_out(dense(head, self.draft_ids), head, self.quantize)
        yield ops.Linear(source="x", out=LOGITS, weight=head)

    def _norm(self, name: str, source: str, out: str) -> Op:
        scale = self.tensors[name].to(self.parts.head.weight.device)
        return ops.RMSNorm(source=source, out=out, scale=scale, eps=self.shape.norm_eps)


def rope(name: str) -> Op:
    """Rotate queries or keys by their positions."""
    return ops.Rope(source=name, out=name, rotation="rotation")
