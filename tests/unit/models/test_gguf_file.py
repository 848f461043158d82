"""GGUF headers: what they hold, and the one clear error for each way to be wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models import load_model
from paceline.models.gguf_file import read_gguf
from tests.model_files import write_gguf
from tests.tiny_models import SPECS, random_weights

U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10


def string(text: bytes | str) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def key(name: str, kind: int, value: bytes) -> bytes:
    return string(name) + struct.pack("<I", kind) + value


def tensor(name: str, axes: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    layout = f"<I{len(axes)}QIQ"
    return string(name) + struct.pack(layout, len(axes), *axes, kind, offset)


def header(
    keys: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    data: int = 0,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    num_tensors, num_keys = counts or (len(tensors), len(keys))
    start = b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_keys)
    head = start + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + bytes(data)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def to_file(data: bytes) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        return path

    return to_file


def test_values_of_every_type(write: Callable[[bytes], Path]) -> None:
    scalars: dict[int, tuple[str, Any]] = {
        0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d",
    }  # type: ignore[dict-item]  # fmt: skip
    keys = [key(f"k{kind}", kind, struct.pack(f"<{c}", 7)) for kind, c in scalars.items()]
    keys.append(key("yes", BOOL, b"\1"))
    keys.append(key("text", STRING, string("größe")))
    words = struct.pack("<IQ", STRING, 2) + string("a") + string("b")
    keys.append(key("words", ARRAY, words))
    keys.append(key("flags", ARRAY, struct.pack("<IQ", BOOL, 3) + b"\0\1\0"))
    nested = struct.pack("<IQ", ARRAY, 1) + struct.pack("<IQ", U32, 2) + struct.pack("<II", 5, 6)
    keys.append(key("nested", ARRAY, nested))
    gguf = read_gguf(write(header(tuple(keys))))
    assert gguf.metadata == {
        **{f"k{kind}": 7 for kind in scalars},
        "yes": True,
        "text": "größe",
        "words": ["a", "b"],
        "flags": [False, True, False],
        "nested": [[5, 6]],
    }
    assert gguf.metadata["yes"] is True


def test_tensors_lie_where_the_header_says(write: Callable[[bytes], Path]) -> None:
    tensors = (tensor("b", (4, 2), 0, 64), tensor("a", (3,), 0, 0))
    data = struct.pack("<3f", 1, 2, 3) + bytes(52) + struct.pack("<8f", *range(8))
    gguf = read_gguf(write(header((), tensors) + data))
    assert torch.equal(gguf.file.load("a", torch.float32), torch.tensor([1.0, 2, 3]))
    assert torch.equal(gguf.file.load("b", torch.float32), torch.arange(8.0).view(2, 4))


HUGE = struct.pack("<Q", 2**63)
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "file: cannot be read"),
    "other magic": (b"PK\3\4" * 9, "magic: .* is no GGUF file"),
    "magic alone": (b"GGUF", "version: the file ends within it"),
    "tensor count": (header(counts=(2**63, 0)), "tensor count: 9223372036854775808 tensors"),
    "key count": (header(counts=(0, 2**64 - 1)), "key count: 18446744073709551615 keys"),
    "long name": (header((HUGE + bytes(16),)), "name of key 0: 9223372036854775808 bytes of text"),
    "no keys": (header(counts=(0, 1), data=64)[:30], "key count: 1 keys"),
    "key twice": (
        header((key("a", U8, b"\1"), key("a", U8, b"\1"))),
        "name of key 1: 'a' is there twice",
    ),
    "name not UTF-8": (header((string(b"\xff\xfe") + bytes(12),)), "name of key 0: is not UTF-8"),
    "value not UTF-8": (header((key("a", STRING, string(b"\xc3(")),)), "key 'a': is not UTF-8"),
    "unknown type": (header((key("a", 13, bytes(8)),)), "key 'a': type 13 is unknown"),
    "no boolean": (header((key("a", BOOL, b"\2"),)), "key 'a': 2 is no boolean"),
    "long string": (header((key("a", STRING, HUGE + b"x" * 9),)), "key 'a': 9223372036854775808"),
    "long array": (
        header((key("a", ARRAY, struct.pack("<I", U8) + HUGE),)),
        "key 'a': 9223372036854775808 items",
    ),
    "array of unknown": (
        header((key("a", ARRAY, struct.pack("<IQ", 99, 1) + bytes(9)),)),
        "key 'a': its items have the unknown type 99",
    ),
    "deep arrays": (
        header((key("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 5 + bytes(20)),)),
        "key 'a': arrays are nested deeper than 4",
    ),
    "alignment of zero": (
        header((key("general.alignment", U32, bytes(4)),)),
        "general.alignment: 0 is no integer",
    ),
    "alignment of 24": (
        header((key("general.alignment", U32, struct.pack("<I", 24)),)),
        "general.alignment: 24 is no power of two",
    ),
    "tensor twice": (
        header((), (tensor("t", (1,)), tensor("t", (1,))), 64),
        "name of tensor 1: 't' is there twice",
    ),
    "no axes": (header((), (tensor("t", ()),), 64), "axes of tensor 't': 0 is no number in 1 .. 4"),
    "many axes": (
        header((), (string("t") + struct.pack("<I", 2**32 - 1),), 64),
        "axes of tensor 't': 4294967295 is no number in 1 .. 4",
    ),
    "empty axis": (header((), (tensor("t", (4, 0)),), 64), r"axes of tensor 't': \[4, 0\]"),
    "huge axis": (header((), (tensor("t", (2**63,)),), 64), "axes of tensor 't'"),
    "huge product": (header((), (tensor("t", (2**32,) * 4),), 64), "offset of tensor 't'"),
    "part of a block": (
        header((), (tensor("t", (48,), 8),), 64),
        "axes of tensor 't': 48 is no multiple of Q8_0's 32",
    ),
    "offset unaligned": (
        header((), (tensor("t", (4,), 0, 8),), 64),
        "offset of tensor 't': 8 is no multiple of the alignment 32",
    ),
    "offset outside": (
        header((), (tensor("t", (4,), 0, 2**63),), 64),
        "offset of tensor 't': it ends at byte .* is it truncated",
    ),
    "data truncated": (header((), (tensor("t", (64,)),), 255), "offset of tensor 't'"),
    "overlap": (
        header((), (tensor("a", (16,)), tensor("b", (4,), 0, 32)), 128),
        "offset of tensor 'b': it overlaps 'a'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_header_names_the_file_and_the_field(
    case: str, write: Callable[[bytes], Path]
) -> None:
    data, complaint = WRONG[case]
    with pytest.raises(ModelFileError, match=complaint) as error:
        read_gguf(write(data))
    assert str(error.value).startswith(str(error.value.path))
    assert error.value.path.name == "model.gguf"


def test_items_of_all_arrays_together_are_bounded(
    write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.models.gguf_reader.MAX_ITEMS", 100)
    array = struct.pack("<IQ", U8, 60) + bytes(60)
    assert read_gguf(write(header((key("a", ARRAY, array),)))).metadata == {"a": [0] * 60}
    with pytest.raises(ModelFileError, match="key 'b': 60 items are more than"):
        read_gguf(write(header((key("a", ARRAY, array), key("b", ARRAY, array)))))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (header(version=1), "GGUF version 1 is not supported"),
        (header(version=3 << 24), "little endian"),
        (
            header((), (tensor("w", (256,), 16),), 66),
            "tensor 'w' has the type IQ2_XXS; supported are",
        ),
        (header((), (tensor("w", (32,), 77),), 64), "tensor 'w' has the type 77; supported are"),
    ],
)
def test_what_is_not_supported_is_named(
    data: bytes, complaint: str, write: Callable[[bytes], Path]
) -> None:
    with pytest.raises(UnsupportedModelError, match=complaint):
        read_gguf(write(data))


SPEC = SPECS["qkv biases"]
MODEL_FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "qwen2.block_count": ({"qwen2.block_count": 4}, "'blk.3.attn_norm.weight': is missing"),
    "fewer layers": ({"qwen2.block_count": 2}, "'blk.2.attn_norm.weight': is not one of a qwen2"),
    "no layers": ({"qwen2.block_count": 0}, "qwen2.block_count: 0 is no integer in 1"),
    "absurd width": ({"qwen2.embedding_length": 2**30}, "qwen2.embedding_length: 1073741824 is no"),
    "other width": ({"qwen2.embedding_length": 47}, "'token_embd.weight': has the shape"),
    "heads": ({"qwen2.attention.head_count": 5}, "sizes: 5 heads cannot share 2 kv heads"),
    "text for a number": ({"qwen2.context_length": "x"}, "qwen2.context_length: 'x' is no integer"),
    "eps": ({"qwen2.attention.layer_norm_rms_epsilon": -1.0}, "rms_epsilon: -1.0 is no number"),
    "vocabulary": ({"qwen2.vocab_size": 256}, "vocab_size: 256 is fewer than the tokenizer's 257"),
}


@pytest.mark.parametrize("case", MODEL_FAULTS)
def test_a_model_whose_keys_and_tensors_differ(case: str, tmp_path: Path) -> None:
    keys, complaint = MODEL_FAULTS[case]
    path = tmp_path / "model.gguf"
    write_gguf(path, SPEC, random_weights(SPEC), keys=keys)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(path)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"general.architecture": "gptj"}, "general.architecture 'gptj' is not supported; known: "),
        ({"qwen2.rope.scaling.type": "yarn"}, "rope scaling 'yarn' is not supported"),
        ({"qwen2.rope.dimension_count": 4}, "rope.dimension_count must be the head size, 8"),
        ({"qwen2.expert_count": 8}, "expert_count is not supported"),
    ],
)
def test_a_model_that_would_be_computed_wrongly(
    keys: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, SPEC, random_weights(SPEC), keys=keys)
    with pytest.raises(UnsupportedModelError, match=complaint):
        load_model(path)
