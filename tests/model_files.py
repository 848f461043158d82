"""Models as Hugging Face folders and as GGUF files, and as transformers' own objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from paceline.models.family import USUAL_GGUF_NAMES, USUAL_HF_NAMES, file_name
from paceline.models.spec import ModelSpec
from paceline.models.weights import to_halves

NAMES = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>"]
"""A vocabulary: 256 bytes and an end of text."""


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of 256 bytes and one end-of-text id."""
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(NAMES)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([NAMES[-1]])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": NAMES[-1], "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_gguf(
    path: Path,
    spec: ModelSpec,
    weights: dict[str, Tensor],
    formats: Sequence[str] = ("F32",),
    keys: dict[str, object] | None = None,
) -> dict[str, Tensor]:
    """Write a model as GGUF and return the weights a reader must find there, in float32.

    The formats take turns over the matrices that have whole blocks; the rest stay F32. Those that
    the gguf package cannot make from numbers are random blocks.
    """
    writer = gguf.GGUFWriter(path, spec.family)
    _write_keys(writer, spec)
    for key, value in (keys or {}).items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    stored: dict[str, Tensor] = {}
    rng = np.random.default_rng(5)
    for index, (name, tensor) in enumerate(weights.items()):
        kind = gguf.GGMLQuantizationType[formats[index % len(formats)]]
        block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        turned = name.split(".")[0] in ("query", "key", "query_bias", "key_bias")
        interleaved = turned and spec.family == "llama"
        numbers = to_pairs(tensor, spec.head_size) if interleaved else tensor
        if tensor.ndim == 1 or tensor.shape[-1] % block_values:
            kind, data = gguf.GGMLQuantizationType.F32, numbers.numpy()
        elif kind.name.endswith("_K"):
            blocks = tensor.shape[-1] // block_values
            data = random_blocks(kind.name, len(tensor) * blocks, rng)
            data = data.reshape(len(tensor), blocks * block_bytes)
        else:
            data = gguf.quants.quantize(numbers.numpy(), kind)
        found = torch.from_numpy(gguf.quants.dequantize(data, kind).reshape(tensor.shape).copy())
        stored[name] = to_halves(found, spec.head_size) if interleaved else found
        writer.add_tensor(file_name(USUAL_GGUF_NAMES, name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def to_pairs(rows: Tensor, head_size: int) -> Tensor:
    """The order in which GGUF keeps a llama's query and key rows: pairs of each head's halves."""
    halves = rows.reshape(-1, 2, head_size // 2, *rows.shape[1:])
    return halves.transpose(1, 2).reshape(rows.shape).contiguous()


def random_blocks(kind: str, count: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Blocks of a ggml format: random bytes, with scales of a sane size."""
    _, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    places = {"Q8_0": [0], "Q5_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}[kind]
    for place in places:
        scales = rng.normal(0, 2e-4, count).astype("<f2")
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


def _write_keys(writer: Any, spec: ModelSpec) -> None:
    writer.add_context_length(spec.max_model_len)
    writer.add_embedding_length(spec.hidden_size)
    writer.add_block_count(spec.num_layers)
    writer.add_feed_forward_length(spec.intermediate_size)
    writer.add_head_count(spec.num_heads)
    writer.add_head_count_kv(spec.num_kv_heads)
    writer.add_key_length(spec.head_size)
    writer.add_value_length(spec.head_size)
    writer.add_layer_norm_rms_eps(spec.norm_eps)
    writer.add_rope_freq_base(spec.rope_theta)
    writer.add_rope_dimension_count(spec.head_size)
    writer.add_vocab_size(spec.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(NAMES)
    writer.add_token_types([1] * 256 + [3])
    writer.add_eos_token_id(256)


def hf_model(spec: ModelSpec, weights: dict[str, Tensor]) -> Any:
    """transformers' model of the same weights; tensors are shared, not copied."""
    config = AutoConfig.for_model(
        spec.family,
        vocab_size=spec.vocab_size,
        hidden_size=spec.hidden_size,
        num_hidden_layers=spec.num_layers,
        num_attention_heads=spec.num_heads,
        num_key_value_heads=spec.num_kv_heads,
        head_dim=spec.head_size,
        intermediate_size=spec.intermediate_size,
        max_position_embeddings=spec.max_model_len,
        rms_norm_eps=spec.norm_eps,
        rope_parameters=hf_rope(spec),
        tie_word_embeddings=spec.tie_embeddings,
        attention_bias=spec.biases.attention_out,
        mlp_bias=spec.biases.mlp,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=None,
        use_cache=False,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    state = {file_name(USUAL_HF_NAMES, name): tensor for name, tensor in weights.items()}
    if spec.tie_embeddings:
        state["lm_head.weight"] = weights["embed"]
    model.load_state_dict(state, strict=True, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def hf_rope(spec: ModelSpec) -> dict[str, object]:
    """The `rope_parameters` of config.json."""
    scaling = spec.rope_scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": spec.rope_theta}
    found: dict[str, object] = {
        "rope_type": scaling.kind, "rope_theta": spec.rope_theta, "factor": scaling.factor
    }  # fmt: skip
    if scaling.kind == "llama3":
        found |= {
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_max_len,
        }
    return found
