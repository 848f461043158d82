"""GGUF: a header of key-values and tensor descriptions, then the tensors.

The format is described in ggml's docs/gguf.md. The file is taken as hostile: nothing is allocated
or read on the word of a number that has not been checked against the file's size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models.dequantize import GGML_FORMATS, GGML_NAMES, Format
from paceline.models.fields import Fields
from paceline.models.gguf_reader import HeaderReader
from paceline.models.mapped_file import MappedFile
from paceline.models.tensor_file import StoredTensor, TensorFile

MAX_KEYS = MAX_TENSORS = 1 << 16
MAX_NAME_BYTES = 1 << 10
MAX_AXES = 4
MAX_ALIGNMENT = 1 << 16
MAX_AXIS = 1 << 32
_LEAST_KEY_BYTES = 13
_LEAST_TENSOR_BYTES = 32


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """A checked file."""

    metadata: dict[str, Any]
    """Key-values; arrays are lists."""
    file: TensorFile

    @property
    def fields(self) -> Fields:
        """The key-values, to be read with their types."""
        return Fields(self.metadata, self.file.mapped.path)


def read_gguf(path: Path) -> GGUFFile:
    """Read and check a header; the tensors stay in the file.

    Raises:
        ModelFileError: the file is damaged, truncated or hostile; names the field.
        UnsupportedModelError: a version, byte order or tensor type without an implementation.
    """
    reader = HeaderReader(MappedFile(path))
    num_tensors, num_keys = _read_counts(reader)
    metadata = _read_metadata(reader, num_keys)
    tensors = _read_tensors(reader, num_tensors)
    alignment = _alignment(reader, metadata)
    start = -(-reader.position // alignment) * alignment
    placed = {name: _place(reader, name, t, start, alignment) for name, t in tensors.items()}
    _refuse_overlaps(reader, placed)
    return GGUFFile(metadata, TensorFile(reader.mapped, placed))


def _read_counts(reader: HeaderReader) -> tuple[int, int]:
    reader.field = "magic"
    if (magic := reader.take(4)) != b"GGUF":
        raise reader.fault(f"{magic!r} is not b'GGUF'; this is no GGUF file")
    reader.field = "version"
    if (version := reader.scalar("<I")) not in (2, 3):
        raise UnsupportedModelError(
            f"{reader.mapped.path}: GGUF version {version} is not supported; convert it to 3"
            " (little endian)."
        )
    reader.field = "tensor count"
    num_tensors = reader.count("tensors", _LEAST_TENSOR_BYTES, MAX_TENSORS)
    reader.field = "key count"
    return num_tensors, reader.count("keys", _LEAST_KEY_BYTES, MAX_KEYS)


def _read_metadata(reader: HeaderReader, num_keys: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for index in range(num_keys):
        reader.field = f"name of key {index}"
        key = reader.string(MAX_NAME_BYTES)
        if key in metadata:
            raise reader.fault(f"'{key:.80}' is there twice")
        reader.field = f"key '{key:.80}'"
        metadata[key] = reader.value(reader.scalar("<I"))
    return metadata


def _read_tensors(reader: HeaderReader, num_tensors: int) -> dict[str, StoredTensor]:
    """Descriptions, with offsets still counted from the start of the data."""
    tensors: dict[str, StoredTensor] = {}
    for index in range(num_tensors):
        reader.field = f"name of tensor {index}"
        name = reader.string(MAX_NAME_BYTES)
        if name in tensors:
            raise reader.fault(f"'{name:.80}' is there twice")
        tensors[name] = _read_tensor(reader, name)
    return tensors


def _read_tensor(reader: HeaderReader, name: str) -> StoredTensor:
    reader.field = f"axes of tensor '{name:.80}'"
    num_axes = reader.scalar("<I")
    if not 1 <= num_axes <= MAX_AXES:
        raise reader.fault(f"{num_axes} is no number in 1 .. {MAX_AXES}")
    axes = [reader.scalar("<Q") for _ in range(num_axes)]
    if not all(1 <= axis <= MAX_AXIS for axis in axes):
        raise reader.fault(f"{axes} are not all in 1 .. {MAX_AXIS}")
    kind = _format(reader, name, reader.scalar("<I"))
    if axes[0] % kind.block_values:
        raise reader.fault(f"{axes[0]} is no multiple of {kind.name}'s {kind.block_values}")
    return StoredTensor(kind, tuple(reversed(axes)), reader.scalar("<Q"))


def _format(reader: HeaderReader, name: str, number: int) -> Format:
    if number in GGML_FORMATS:
        return GGML_FORMATS[number]
    known = ", ".join(kind.name for kind in GGML_FORMATS.values())
    raise UnsupportedModelError(
        f"{reader.mapped.path}: tensor '{name:.80}' has the type"
        f" {GGML_NAMES.get(number, number)}; supported are {known}."
    )


def _alignment(reader: HeaderReader, metadata: dict[str, Any]) -> int:
    fields = Fields(metadata, reader.mapped.path)
    alignment = fields.integer("general.alignment", 32, high=MAX_ALIGNMENT)
    if not math.log2(alignment).is_integer():
        raise fields.fault("general.alignment", f"{alignment} is no power of two")
    return alignment


def _place(
    reader: HeaderReader, name: str, tensor: StoredTensor, start: int, alignment: int
) -> StoredTensor:
    """The tensor with its offset in the file, which must be aligned and hold all of it."""
    reader.field = f"offset of tensor '{name:.80}'"
    if tensor.offset % alignment:
        raise reader.fault(f"{tensor.offset} is no multiple of the alignment {alignment}")
    end = start + tensor.offset + tensor.size_bytes
    if end > reader.mapped.size_bytes:
        raise reader.fault(
            f"it ends at byte {end} of a file of {reader.mapped.size_bytes}; is it truncated?"
        )
    return StoredTensor(tensor.format, tensor.shape, start + tensor.offset)


def _refuse_overlaps(reader: HeaderReader, tensors: dict[str, StoredTensor]) -> None:
    end, last = 0, ""
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].offset):
        if tensor.offset < end:
            raise ModelFileError(
                reader.mapped.path, f"offset of tensor '{name:.80}'", f"it overlaps '{last:.80}'"
            )
        end, last = tensor.offset + tensor.size_bytes, name
