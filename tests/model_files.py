"""Models as Hugging Face folders and as GGUF files, and as transformers' own objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForCausalLM

from paceline.models.families import families
from paceline.models.family import Names, file_name, stem_of
from paceline.models.spec import ModelSpec
from paceline.models.weights import to_halves
from tests.model_configs import ARCHITECTURES, hf_config, write_keys

TURNED = ("query", "key", "query_bias", "key_bias")
SCALES = {
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0],
}  # fmt: skip
"""Where the halves lie that scale a block, of the formats that are written as random blocks."""
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
    family = families[spec.family]
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(spec.family, spec.family))
    write_keys(writer, spec)
    _write_vocabulary(writer, spec)
    for key, value in (keys or {}).items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    stored: dict[str, Tensor] = {}
    rng, turns = np.random.default_rng(5), cycle(formats)
    for name, parts in _by_file_name(family.gguf_names, weights).items():
        turned = family.gguf_interleaves_rope and stem_of(next(iter(parts))) in TURNED
        tensor = torch.cat([*parts.values()])
        numbers = to_pairs(tensor, spec.head_size) if turned else tensor
        data, kind = _encode(numbers, next(turns) if numbers.ndim > 1 else "F32", rng)
        found = torch.from_numpy(gguf.quants.dequantize(data, kind).reshape(tensor.shape).copy())
        found = to_halves(found, spec.head_size) if turned else found
        stored |= zip(parts, found.split([len(part) for part in parts.values()]), strict=True)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def _by_file_name(names: Names, weights: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The file's tensors and what each holds, in order."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        found.setdefault(file_name(names, name), {})[name] = tensor
    return found


def _encode(numbers: Tensor, name: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """The numbers in a format, or random blocks of it; and the format."""
    kind = gguf.GGMLQuantizationType[name]
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if numbers.shape[-1] % block_values:
        return numbers.numpy(), gguf.GGMLQuantizationType.F32
    if name not in SCALES:
        return gguf.quants.quantize(numbers.numpy(), kind), kind
    rows, blocks = len(numbers), numbers.shape[-1] // block_values
    return random_blocks(name, rows * blocks, rng).reshape(rows, blocks * block_bytes), kind


def to_pairs(rows: Tensor, head_size: int) -> Tensor:
    """The order in which GGUF keeps a llama's query and key rows: pairs of each head's halves."""
    halves = rows.reshape(-1, 2, head_size // 2, *rows.shape[1:])
    return halves.transpose(1, 2).reshape(rows.shape).contiguous()


def random_blocks(kind: str, count: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Blocks of a ggml format: random bytes, with scales of a sane size."""
    _, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    for place in SCALES[kind]:
        scales = rng.normal(0, 2e-4, count).astype("<f2")
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


def _write_vocabulary(writer: Any, spec: ModelSpec) -> None:
    writer.add_vocab_size(spec.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(NAMES)
    writer.add_token_types([1] * 256 + [3])
    writer.add_eos_token_id(256)


def hf_model(spec: ModelSpec, weights: dict[str, Tensor]) -> Any:
    """transformers' model of the same weights; most tensors are shared, not copied."""
    config = hf_config(spec)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    state = hf_state(spec, weights)
    if spec.tie_embeddings:
        state["lm_head.weight"] = weights["embed"]
    model.load_state_dict(state, strict=True, assign=True)
    if spec.rope_theta is not None:
        model.model.rotary_emb = type(model.model.rotary_emb)(config)
    if spec.embedding_scale != 1:
        model.model.embed_tokens.embed_scale = torch.tensor(spec.embedding_scale)
    return model.eval()


def hf_state(spec: ModelSpec, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights as transformers names and keeps them."""
    family, state = families[spec.family], {}
    for stored, parts in _by_file_name(family.hf_names, weights).items():
        stem = stem_of(next(iter(parts)))
        tensor = torch.cat([*parts.values()]) if len(parts) > 1 else next(iter(parts.values()))
        tensor = tensor.t().contiguous() if stem in family.hf_transposed else tensor
        offset = family.hf_norm_offset
        state[stored] = tensor - offset if offset and stem.endswith("_norm") else tensor
    return state
