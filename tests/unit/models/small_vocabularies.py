"""Small vocabularies, as the key-values of a GGUF file and as a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
MERGES = ["h e", "l l", "ll o", "he llo", "Ġ w", "o r", "Ġw or", "1 2", "Ġ Ġ", "Ã ©", "ð Ł"]
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level_metadata(pre: str = "gpt-2", **changes: Any) -> dict[str, Any]:
    """256 bytes, MERGES, CONTROLS, one token of the user's own, two rows of padding."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = [merge.replace(" ", "") for merge in MERGES]
    named = [*alphabet, *merged, *CONTROLS, "<tool>"]
    tokens = [*named, *(f"[PAD{i}]" for i in range(len(named), len(named) + 2))]
    plain = len(alphabet) + len(merged)
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * plain
        + [CONTROL] * 3
        + [USER_DEFINED]
        + [UNUSED] * 2,
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
    }
    return {k: v for k, v in (metadata | _keys(changes)).items() if v is not None}


def sentence_piece_metadata(**changes: Any) -> dict[str, Any]:
    """256 byte tokens, letters and a few words with scores."""
    pieces = {"▁hello": -1.0, "▁wor": -2.0, "hello": -3.0, "llo": -4.0, "▁w": -5.0, "he": -6.0}
    pieces |= {"or": -7.0, "ll": -8.0, "▁he": -9.0} | dict.fromkeys("▁helowrdé", -20.0)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces, "\n\n"]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL]
        + [BYTE] * 256
        + [NORMAL] * len(pieces)
        + [USER_DEFINED],
        "tokenizer.ggml.scores": [0.0] * 259 + [*pieces.values(), -1000.0],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    return {k: v for k, v in (metadata | _keys(changes)).items() if v is not None}


def _keys(changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer.chat_template" if key == "chat_template" else f"tokenizer.ggml.{key}": value
        for key, value in changes.items()
    }


def byte_level_backend(extra: tuple[str, ...] = ()) -> Tokenizer:
    """The library's byte-level BPE with MERGES, CONTROLS and `extra` tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate([*alphabet, *(m.replace(" ", "") for m in MERGES)])}
    backend = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in MERGES]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(c, normalized=False) for c in CONTROLS])
    backend.add_tokens([AddedToken(e, normalized=False) for e in ("<tool>", *extra)])
    return backend


def write_folder(folder: Path, backend: Tokenizer, **files: Any) -> Path:
    """A Hugging Face folder; `files` maps "tokenizer_config" and its like to their objects."""
    backend.save(str(folder / "tokenizer.json"))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder
