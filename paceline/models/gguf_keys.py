"""The keys of a GGUF file that most families share."""

from __future__ import annotations

from collections.abc import Collection

from paceline.errors import UnsupportedModelError
from paceline.models import bounds
from paceline.models.fields import Fields
from paceline.models.spec import Biases, ModelSpec, RopeScaling, Window

ROPE_FACTORS = "rope_freqs.weight"
"""The tensor some files carry in place of rope-scaling keys."""


def spec_from_gguf(keys: Fields, tensors: Collection[str], biases: Biases) -> ModelSpec:
    """Read what most families share from the keys under the family's name.

    Raises:
        ModelFileError: a key is missing or out of range.
        UnsupportedModelError: something that would change the result and has no implementation.
    """
    width = keys.integer("embedding_length", high=bounds.WIDTH)
    heads = keys.integer("attention.head_count", high=bounds.HEADS)
    head_size = keys.integer("attention.key_length", width // heads, high=bounds.WIDTH)
    _refuse_unsupported(keys, head_size)
    with keys.fitting("sizes"):
        return ModelSpec(
            family=keys.prefix.removesuffix("."),
            vocab_size=vocab_size(keys),
            hidden_size=width,
            num_layers=keys.integer("block_count", high=bounds.LAYERS),
            num_heads=heads,
            num_kv_heads=keys.integer("attention.head_count_kv", heads, high=bounds.HEADS),
            head_size=head_size,
            intermediate_size=keys.integer("feed_forward_length", high=bounds.WIDTH),
            max_model_len=keys.integer("context_length", high=bounds.CONTEXT),
            norm_eps=keys.number("attention.layer_norm_rms_epsilon", low=0, high=1),
            rope_theta=keys.number("rope.freq_base", 1e4, low=1, high=1e12),
            rope_scaling=_rope_scaling(keys, tensors),
            biases=biases,
            window=_window(keys),
            tie_embeddings="output.weight" not in tensors,
        )


def _window(keys: Fields) -> Window | None:
    """A window that nothing more is said of is every layer's."""
    tokens = keys.integer("attention.sliding_window", 0, low=0, high=bounds.CONTEXT)
    layers = keys.integer("block_count", high=bounds.LAYERS)
    return Window(tokens=tokens, layers=frozenset(range(layers))) if tokens else None


def vocab_size(keys: Fields) -> int:
    """The key of that name, or as many as the tokenizer names."""
    tokens = keys.values.get("tokenizer.ggml.tokens")
    named = len(tokens) if isinstance(tokens, list) else None
    return keys.integer("vocab_size", named, high=bounds.VOCAB)


def _refuse_unsupported(keys: Fields, head_size: int) -> None:
    """Refuse what would be computed wrongly."""
    for key in ("attention.value_length", "rope.dimension_count"):
        if keys.integer(key, head_size, high=bounds.WIDTH) != head_size:
            raise UnsupportedModelError(f"{keys.path}: {key} must be the head size, {head_size}.")
    if keys.integer("expert_count", 0, low=0, high=bounds.CONTEXT):
        raise UnsupportedModelError(f"{keys.path}: {keys.prefix}expert_count is not supported.")


def _rope_scaling(keys: Fields, tensors: Collection[str]) -> RopeScaling | None:
    """A tensor of factors, or the keys."""
    if ROPE_FACTORS in tensors:
        return RopeScaling(kind="factors")
    kind = keys.text("rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise UnsupportedModelError(f"{keys.path}: rope scaling '{kind}' is not supported.")
    legacy = keys.number("rope.scale_linear", 1.0, low=1, high=1e6)
    factor = keys.number("rope.scaling.factor", legacy, low=1, high=1e6)
    return None if factor == 1 else RopeScaling(kind="linear", factor=factor)
