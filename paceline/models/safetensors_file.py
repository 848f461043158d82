"""safetensors: a JSON header of names, types, shapes and byte ranges, then the tensors.

The file is taken as hostile, as a GGUF file is; `model.safetensors.index.json` names the shards.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models.dequantize import SAFETENSORS_FORMATS, Format
from paceline.models.mapped_file import MappedFile
from paceline.models.tensor_file import StoredTensor, TensorFile

MAX_HEADER_BYTES = 100 << 20
"""As the format has it."""
MAX_AXES = 8
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def read_folder(folder: Path) -> list[TensorFile]:
    """Read and check the headers of a folder's one file, or of its shards.

    Raises:
        ModelFileError: a file is missing, damaged, truncated or hostile; names the field.
        UnsupportedModelError: a tensor type without an implementation.
    """
    if not (folder / INDEX).is_file():
        return [read_safetensors(folder / SINGLE)]
    shards = _read_index(folder / INDEX)
    files = [read_safetensors(folder / name) for name in sorted(set(shards.values()))]
    found = {name: file.mapped.path.name for file in files for name in file.tensors}
    for name, shard in shards.items():
        if found.get(name) != shard:
            raise ModelFileError(folder / shard, f"tensor '{name:.80}'", "the index has it here")
    if sum(len(file.tensors) for file in files) != len(shards):
        raise ModelFileError(folder / INDEX, "weight_map", "the shards hold other tensors")
    return files


def read_safetensors(path: Path, formats: Mapping[str, Format] = SAFETENSORS_FORMATS) -> TensorFile:
    """Read and check one file's header; raises as read_folder does."""
    mapped = MappedFile(path)
    if mapped.size_bytes < 8:
        raise ModelFileError(path, "header length", "the file ends within it")
    (length,) = struct.unpack("<Q", mapped.read(0, 8))
    if length > min(mapped.size_bytes - 8, MAX_HEADER_BYTES):
        raise ModelFileError(path, "header length", f"{length} is more than the file can hold")
    header = _parse(mapped.read(8, length), path, "header")
    header.pop("__metadata__", None)
    start = 8 + length
    tensors = {n: _tensor(path, n, entry, start, formats) for n, entry in header.items()}
    end = start
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].offset):
        if tensor.offset != end:
            raise _fault(path, name, "data_offsets", "it does not follow the tensor before it")
        end += tensor.size_bytes
    if end != mapped.size_bytes:
        raise ModelFileError(
            path, "data", f"the tensors end at byte {end} of a file of {mapped.size_bytes}"
        )
    return TensorFile(mapped, tensors)


def _read_index(path: Path) -> dict[str, str]:
    """Tensor name -> file name, within the index's own folder."""
    shards = _parse(path.read_bytes(), path, "JSON").get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelFileError(path, "weight_map", "is missing or no object")
    for shard in shards.values():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ModelFileError(path, "weight_map", f"{shard!r:.80} is no file name")
    return shards


def _parse(text: bytes, path: Path, field: str) -> dict[str, Any]:
    """A JSON object in which no key is there twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) != len(dict(pairs)):
            raise ModelFileError(path, field, "a name is there twice")
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(path, field, f"is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(path, field, "is no object")
    return value


def _tensor(
    path: Path, name: str, entry: Any, start: int, formats: Mapping[str, Format]
) -> StoredTensor:
    if not isinstance(entry, dict):
        raise _fault(path, name, "entry", "is no object")
    kind = _format(path, name, entry.get("dtype"), formats)
    shape, offsets = _counts(path, name, entry, "shape"), _counts(path, name, entry, "data_offsets")
    tensor = StoredTensor(kind, shape, start + offsets[0] if offsets else 0)
    if len(offsets) != 2 or tensor.size_bytes != offsets[1] - offsets[0]:
        raise _fault(path, name, "data_offsets", f"{offsets} do not span {tensor.size_bytes} bytes")
    return tensor


def _format(path: Path, name: str, dtype: Any, formats: Mapping[str, Format]) -> Format:
    if isinstance(dtype, str) and dtype in formats:
        return formats[dtype]
    known = ", ".join(formats)
    raise UnsupportedModelError(
        f"{path}: tensor '{name:.80}' has the type {dtype!r:.20}; supported are {known}."
    )


def _counts(path: Path, name: str, entry: dict[str, Any], field: str) -> tuple[int, ...]:
    """A short list of sizes or offsets."""
    value = entry.get(field)
    if not isinstance(value, list) or len(value) > MAX_AXES:
        raise _fault(path, name, field, f"{value!r:.80} is no list of at most {MAX_AXES} numbers")
    if not all(type(n) is int and 0 <= n < 1 << 48 for n in value):
        raise _fault(path, name, field, f"{value!r:.80} are not all numbers below 2**48")
    return tuple(value)


def _fault(path: Path, name: str, field: str, problem: str) -> ModelFileError:
    return ModelFileError(path, f"{field} of tensor '{name:.80}'", problem)
