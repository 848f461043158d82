"""A stored matrix -> a packed weight, some rows at a time, so that no second copy is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.kernels.packed import FORMATS, PackedWeight, pack_chunks
from paceline.models.dequantize import Bytes
from paceline.models.quantize import ENCODERS
from paceline.models.tensor_file import StoredTensor, TensorFile

Arrange = Callable[[Tensor], Tensor]
"""rows[O, …] in the file's order -> in the model's."""

QUANTIZE = ("int4", "int8")
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Packing:
    """What matrices are packed as: the format they are stored in, unless `kind` says otherwise."""

    kind: str | None = None
    """int4, int8, float32 or bfloat16."""

    def __post_init__(self) -> None:
        """Check the kind; raises ConfigError."""
        if self.kind not in (None, "float32", "bfloat16", *QUANTIZE):
            raise ConfigError(f"quantize must be {' or '.join(QUANTIZE)}, not '{self.kind}'.")

    def format_of(self, stored: StoredTensor) -> str:
        """The format of a stored matrix once packed; what has no kernel is kept as float32."""
        match self.kind:
            case "int4":
                return "Q4_1" if stored.shape[-1] % 256 else "Q4_K"
            case "int8":
                return "Q8_0"
            case "bfloat16":
                return "BF16"
            case None if stored.format.name in FORMATS:
                return stored.format.name
            case _:
                return "F32"

    def load(self, file: TensorFile, name: str, arrange: Arrange | None = None) -> PackedWeight:
        """Pack one matrix; `arrange` sees all its rows at once.

        Raises:
            UnsupportedModelError: its width does not fit the format.
        """
        stored = file.tensors[name]
        target = self.format_of(stored)
        encode = _encoder(stored, target)
        shape = stored.shape[0], stored.shape[1]
        if arrange is None:
            return pack_chunks(target, shape, map(encode, _row_chunks(file, name)))
        rows = torch.from_numpy(encode(file.rows(name, 0, stored.shape[0])).copy())
        return pack_chunks(target, shape, [arrange(rows).contiguous().numpy()])


def _row_chunks(file: TensorFile, name: str) -> Iterator[Bytes]:
    """Stored rows, a multiple of 16 at a time; their pages go when the next ones are asked for."""
    stored = file.tensors[name]
    rows = stored.shape[0]
    size = max(1, _CHUNK_BYTES * rows // max(stored.size_bytes, 1) // 16) * 16
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        yield file.rows(name, start, stop)
        file.forget_rows(name, start, stop)


def _encoder(stored: StoredTensor, target: str) -> Callable[[Bytes], Bytes]:
    """rows[n, stored bytes] -> rows[n, target bytes]; as they are where the format stays."""
    source = stored.format
    if source.name == target:
        return lambda rows: rows
    block_values, encode = ENCODERS[target]

    def one(rows: Bytes) -> Bytes:
        values = source.decode(rows.reshape(-1, source.block_bytes))
        return encode(values.reshape(-1, block_values)).reshape(len(rows), -1)

    def shared(rows: Bytes) -> Bytes:
        parts = np.array_split(rows, max(1, len(rows) // 64))
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return np.concatenate(list(pool.map(one, parts)))

    return shared
