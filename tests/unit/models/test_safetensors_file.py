"""safetensors folders: what they hold, and the one clear error for each way to be wrong."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models import load_model
from paceline.models.safetensors_file import INDEX, SINGLE, read_folder, read_safetensors
from tests.model_files import hf_model, write_tokenizer
from tests.tiny_models import SPECS, random_weights

SPEC = SPECS["qkv biases"]


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def file_of(header: Any, data: int = 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def test_every_format_the_library_writes(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 5),
        "b": torch.randn(7).half(),
        "c": torch.randn(2, 2, 2).bfloat16(),
        "empty": torch.empty(0, 4),
        "scalar": torch.tensor(3.5),
    }
    save_file(tensors, tmp_path / "t.safetensors", {"format": "pt"})
    file = read_safetensors(tmp_path / "t.safetensors")
    assert set(file.tensors) == set(tensors)
    for name, tensor in tensors.items():
        found = file.load(name, torch.float32)
        assert found.shape == tensor.shape
        assert torch.equal(found, tensor.float())


WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "file: cannot be read"),
    "short": (b"1234567", "header length: the file ends within it"),
    "huge header": (struct.pack("<Q", 2**63) + b"{}", "header length: 9223372036854775808"),
    "no JSON": (file_of(b"{]"), "header: is no JSON"),
    "not UTF-8": (file_of(b"\xff\xff"), "header: is no JSON"),
    "deep JSON": (file_of(b"[" * 100_000), "header: is no JSON"),
    "list": (file_of([]), "header: is no object"),
    "twice": (file_of(b'{"a": 1, "a": 2}'), "header: a name is there twice"),
    "entry": (file_of({"a": 3}), "entry of tensor 'a': is no object"),
    "shape": (file_of({"a": entry(shape=[-1])}), r"shape of tensor 'a': \[-1\] are not all"),
    "no shape": (file_of({"a": entry(shape=None)}), "shape of tensor 'a': None is no list"),
    "axes": (file_of({"a": entry(shape=[1] * 9)}), "shape of tensor 'a': .* at most 8"),
    "huge": (file_of({"a": entry(shape=[2**47] * 8)}), "data_offsets of tensor 'a'"),
    "float": (file_of({"a": entry(shape=[2.0])}), "shape of tensor 'a'"),
    "span": (file_of({"a": entry(offsets=[0, 4])}), r"data_offsets of tensor 'a': .* 8 bytes"),
    "one offset": (file_of({"a": entry(offsets=[0])}), "data_offsets of tensor 'a'"),
    "no offsets": (file_of({"a": entry(offsets=[])}), "data_offsets of tensor 'a'"),
    "reversed": (file_of({"a": entry(offsets=[8, 0])}), "data_offsets of tensor 'a'"),
    "gap": (file_of({"a": entry(offsets=[8, 16])}, 16), "it does not follow the tensor before"),
    "overlap": (
        file_of({"a": entry(), "b": entry()}),
        "data_offsets of tensor 'b': it does not follow the tensor before",
    ),
    "truncated": (file_of({"a": entry()}, 7), "data: the tensors end at byte"),
    "trailing": (file_of({"a": entry()}, 9), "data: the tensors end at byte"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_names_itself_and_the_field(case: str, tmp_path: Path) -> None:
    data, complaint = WRONG[case]
    (tmp_path / SINGLE).write_bytes(data)
    with pytest.raises(ModelFileError, match=complaint) as error:
        read_folder(tmp_path)
    assert str(error.value).startswith(str(tmp_path / SINGLE))


def test_a_type_that_is_not_supported(tmp_path: Path) -> None:
    (tmp_path / SINGLE).write_bytes(file_of({"a": entry("I64", [1])}))
    with pytest.raises(UnsupportedModelError, match="tensor 'a' has the type 'I64'; supported are"):
        read_folder(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hf_model(SPEC, random_weights(SPEC)).save_pretrained(tmp_path, max_shard_size="60KB")
    write_tokenizer(tmp_path)
    return tmp_path


def edit(path: Path, **changes: Any) -> None:
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **changes}))


def test_an_index_may_not_leave_its_folder(folder: Path) -> None:
    edit(folder / INDEX, weight_map={"a": "../model.safetensors"})
    with pytest.raises(ModelFileError, match=r"weight_map: '../model.safetensors' is no file name"):
        load_model(folder)


def test_an_index_that_is_none(folder: Path) -> None:
    edit(folder / INDEX, weight_map=[])
    with pytest.raises(ModelFileError, match="weight_map: is missing or no object"):
        load_model(folder)


def test_an_index_that_puts_a_tensor_elsewhere(folder: Path) -> None:
    shards = json.loads((folder / INDEX).read_text())["weight_map"]
    names = sorted(set(shards.values()))
    edit(folder / INDEX, weight_map={**shards, "lm_head.weight": names[-1]})
    assert shards["lm_head.weight"] != names[-1]
    with pytest.raises(ModelFileError, match=r"tensor 'lm_head.weight': the index has it here"):
        load_model(folder)


def test_an_index_that_leaves_a_tensor_out(folder: Path) -> None:
    shards = json.loads((folder / INDEX).read_text())["weight_map"]
    left_out = "model.norm.weight"
    assert list(shards.values()).count(shards.pop(left_out)) > 1
    edit(folder / INDEX, weight_map=shards)
    with pytest.raises(ModelFileError, match="weight_map: the shards hold other tensors"):
        load_model(folder)


def test_a_missing_shard(folder: Path) -> None:
    shard = sorted(folder.glob("*.safetensors"))[0]
    shard.unlink()
    with pytest.raises(ModelFileError, match="file: cannot be read") as error:
        load_model(folder)
    assert error.value.path == shard
