"""Tiny random decoders of every family, and a bench to run them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.kernels import Batch, KVTensors, PassOutput, Program, Segment, run
from paceline.models.decoder import build_program
from paceline.models.family import tensor_shapes
from paceline.models.spec import Biases, ModelSpec, Norms, RopeScaling, SoftCaps, Window

LLAMA3 = RopeScaling(
    kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=32
)
SPECS = {
    "grouped heads, tied": ModelSpec(
        family="llama", vocab_size=300, hidden_size=64, num_layers=2, num_heads=4, num_kv_heads=2,
        head_size=16, intermediate_size=96, max_model_len=256, norm_eps=1e-6, rope_theta=1e4,
        tie_embeddings=True,
    ),
    "qkv biases": ModelSpec(
        family="qwen2", vocab_size=320, hidden_size=48, num_layers=3, num_heads=6, num_kv_heads=2,
        head_size=8, intermediate_size=130, max_model_len=256, norm_eps=1e-5, rope_theta=1e6,
        biases=Biases(qkv=True),
    ),
    "odd sizes, all biases": ModelSpec(
        family="llama", vocab_size=263, hidden_size=33, num_layers=2, num_heads=3, num_kv_heads=3,
        head_size=10, intermediate_size=77, max_model_len=128, norm_eps=1e-6, rope_theta=5e5,
        rope_scaling=LLAMA3, biases=Biases(qkv=True, attention_out=True, mlp=True),
    ),
    "one kv head": ModelSpec(
        family="llama", vocab_size=257, hidden_size=120, num_layers=1, num_heads=5, num_kv_heads=1,
        head_size=32, intermediate_size=200, max_model_len=256, norm_eps=1e-6, rope_theta=1e4,
        rope_scaling=RopeScaling(kind="linear", factor=2.0),
    ),
    "head norms": ModelSpec(
        family="qwen3", vocab_size=290, hidden_size=40, num_layers=2, num_heads=4, num_kv_heads=2,
        head_size=24, intermediate_size=100, max_model_len=256, norm_eps=1e-6, rope_theta=1e6,
        norms=Norms(heads=True), tie_embeddings=True,
    ),
    "a window on every layer": ModelSpec(
        family="mistral", vocab_size=260, hidden_size=48, num_layers=2, num_heads=4,
        num_kv_heads=2, head_size=20, intermediate_size=64, max_model_len=256, norm_eps=1e-5,
        rope_theta=1e4, window=Window(tokens=19, layers=frozenset({0, 1})),
    ),
    "near and far layers": ModelSpec(
        family="gemma3", vocab_size=300, hidden_size=64, num_layers=3, num_heads=4, num_kv_heads=1,
        head_size=32, intermediate_size=80, max_model_len=256, norm_eps=1e-6, rope_theta=1e6,
        rope_scaling=RopeScaling(kind="linear", factor=8.0), norms=Norms(heads=True, after=True),
        activation="gelu", window=Window(tokens=7, layers=frozenset({0, 2}), rope_theta=1e4),
        attention_scale=24**-0.5, soft_caps=SoftCaps(scores=4.0, logits=5.0),
        embedding_scale=8.0, tie_embeddings=True,
    ),
    "learned positions": ModelSpec(
        family="gpt2", vocab_size=280, hidden_size=60, num_layers=2, num_heads=4, num_kv_heads=4,
        head_size=15, intermediate_size=110, max_model_len=256, norm_eps=1e-5, rope_theta=None,
        biases=Biases(qkv=True, attention_out=True, mlp=True), norms=Norms(centred=True),
        activation="gelu", gated=False, tie_embeddings=True,
    ),
}  # fmt: skip


def random_weights(spec: ModelSpec, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Weights that keep the size of what flows through, so that rounding does not blow up."""
    generator = torch.Generator().manual_seed(len(repr(spec)))
    return {
        name: (
            torch.randn(shape, generator=generator) * _spread(name, shape)
            + ("norm" in name and "bias" not in name)
        ).to(dtype)
        for name, shape in tensor_shapes(spec).items()
    }


def _spread(name: str, shape: tuple[int, ...]) -> float:
    return 0.2 if len(shape) == 1 or name in ("embed", "positions") else 1.3 * shape[-1] ** -0.5


@dataclass
class Rows:
    """Some rows of one request: `parents` as in a Segment, depth giving the position."""

    tokens: Sequence[int]
    start: int
    slots: Tensor
    """Slots of the context's tokens, then of these rows."""
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.parents = self.parents or tuple(range(-1, len(self.tokens) - 1))

    @property
    def positions(self) -> list[int]:
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return [self.start + depth for depth in depths]


@dataclass
class Bench:
    """A tiny model with a cache of shuffled slots to hand out."""

    spec: ModelSpec
    dtype: torch.dtype = torch.float32
    num_slots: int = 1024
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = build_program(self.spec, random_weights(self.spec, self.dtype))
        shape = (self.spec.num_layers, self.num_slots, self.spec.num_kv_heads, self.spec.head_size)
        self.kv = KVTensors(*(torch.full(shape, torch.nan, dtype=self.dtype) for _ in "kv"))
        self._free = torch.randperm(
            self.num_slots, generator=torch.Generator().manual_seed(7)
        ).tolist()

    def slots(self, count: int) -> Tensor:
        """Slots no one has used; their keys are NaN, which would show."""
        return torch.tensor([self._free.pop() for _ in range(count)])

    def forward(self, *work: Rows, hidden_layers: tuple[int, ...] = ()) -> PassOutput:
        """One pass with logits for every row."""
        segments, start = [], 0
        for rows in work:
            segments.append(Segment(start, rows.slots[: rows.start], rows.parents))
            start += len(rows.tokens)
        own = [rows.slots[rows.start : rows.start + len(rows.tokens)] for rows in work]
        batch = Batch(
            ids=torch.tensor([token for rows in work for token in rows.tokens]),
            positions=torch.tensor([p for rows in work for p in rows.positions]),
            slots=torch.cat(own),
            segments=tuple(segments),
            logit_rows=torch.arange(start),
            hidden_layers=hidden_layers,
        )
        return self.compute(batch, self.kv)

    def compute(self, batch: Batch, kv: KVTensors) -> PassOutput:
        """The executor under test."""
        return run(self.program, batch, kv)

    def alone(self, tokens: Sequence[int]) -> Tensor:
        """logits[len(tokens), V] of a text in one pass of its own."""
        return self.forward(Rows(tokens, 0, self.slots(len(tokens)))).logits


def random_tokens(spec: ModelSpec, count: int, seed: int = 0) -> list[int]:
    """Ids in the model's vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(spec.vocab_size, (count,), generator=generator).tolist()


def one_text(tokens: Sequence[int]) -> Batch:
    """A text in one pass, with the logits of each of its rows; slots are its positions."""
    rows, nothing = torch.arange(len(tokens)), torch.empty(0, dtype=torch.int64)
    segment = Segment(0, nothing, tuple(range(-1, len(tokens) - 1)))
    return Batch(torch.tensor(tokens), rows, rows, (segment,), rows)
