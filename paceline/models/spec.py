"""What a decoder is made of: sizes, constants, and which weights it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from paceline.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched to contexts longer than the trained ones."""

    kind: str
    """"linear", "llama3", or "factors": a tensor of the file divides each frequency."""
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_len: int = 8192
    """Context length before the stretch, in tokens; low, high and this one are llama3's."""

    def __post_init__(self) -> None:
        """Check the kind and that the band is not empty."""
        if self.kind not in ("linear", "llama3", "factors"):
            raise ModelError(f"There is no rope scaling '{self.kind}'; known: linear, llama3.")
        if self.low_freq_factor >= self.high_freq_factor:
            raise ModelError("low_freq_factor must be below high_freq_factor.")


@dataclass(frozen=True, kw_only=True)
class Biases:
    """Which projections have a bias."""

    qkv: bool = False
    attention_out: bool = False
    mlp: bool = False


@dataclass(frozen=True, kw_only=True)
class Norms:
    """How layers are normalised."""

    centred: bool = False
    """LayerNorm, which takes the mean away and has a bias; else RMSNorm."""
    heads: bool = False
    """Each head of query and key is normed before its rope."""
    after: bool = False
    """What attention and MLP add to the stream is normed too."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Layers whose rows attend to the nearest keys alone."""

    tokens: int
    """Keys that a row sees, its own among them."""
    layers: frozenset[int]
    rope_theta: float | None = None
    """Base of these layers' own rope, which no scaling stretches; None: the model's."""


@dataclass(frozen=True, kw_only=True)
class SoftCaps:
    """c · tanh(x / c) keeps x within ±c; None: x as it is."""

    scores: float | None = None
    logits: float | None = None


Activation = Literal["silu", "gelu"]
"""Of the MLP; gelu is its approximation by a tanh."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A decoder's shape; with the weights it is the whole model.

    Raises:
        ModelError: sizes that do not fit one another.
    """

    family: str
    vocab_size: int
    """V: rows of the logits; the tokenizer may name fewer."""
    hidden_size: int
    """E."""
    num_layers: int
    """L."""
    num_heads: int
    """H."""
    num_kv_heads: int
    """G."""
    head_size: int
    """D."""
    intermediate_size: int
    max_model_len: int
    """The longest context, in tokens."""
    norm_eps: float
    rope_theta: float | None
    """Base of the rotary frequencies; None: positions have learned embeddings instead."""
    rope_scaling: RopeScaling | None = None
    biases: Biases = field(default_factory=Biases)
    norms: Norms = field(default_factory=Norms)
    activation: Activation = "silu"
    gated: bool = True
    """The MLP multiplies activation(gate) by up; else it is activation(up)."""
    window: Window | None = None
    attention_scale: float | None = None
    """What scores are multiplied by; None: 1 / sqrt(D)."""
    soft_caps: SoftCaps = field(default_factory=SoftCaps)
    embedding_scale: float = 1.0
    tie_embeddings: bool = False
    """The head is the embedding table."""
    bos_id: int | None = None
    eos_ids: frozenset[int] = frozenset()
    """Every id that ends a text."""

    def __post_init__(self) -> None:
        """Check what must fit."""
        if self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"{self.num_heads} heads cannot share {self.num_kv_heads} kv heads evenly."
            )
        if not self.gated and self.activation != "gelu":
            raise ModelError("An MLP without a gate has the activation gelu.")
        if not self.head_size or (self.rope_theta is not None and self.head_size % 2):
            raise ModelError(f"The head size {self.head_size} is not even; rope turns pairs.")


def rope_frequencies(
    head_size: int, theta: float, scaling: RopeScaling | None = None
) -> list[float]:
    """frequencies[D / 2] in radians per token (RoFormer, arXiv 2104.09864, section 3.2.2).

    Scaling "linear" divides them all by the factor. "llama3" (Llama 3.1's reference code) divides
    those whose wavelength exceeds original_max_len / low_freq_factor, keeps those below
    original_max_len / high_freq_factor, and blends between.
    """
    plain = [theta ** (-2 * i / head_size) for i in range(head_size // 2)]
    if scaling is None:
        return plain
    return [frequency * _stretch(frequency, scaling) for frequency in plain]


def _stretch(frequency: float, scaling: RopeScaling) -> float:
    if scaling.kind != "llama3":
        return 1 / scaling.factor
    turns = scaling.original_max_len * frequency / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = min(max((turns - low) / (high - low), 0.0), 1.0)
    return kept + (1 - kept) / scaling.factor
