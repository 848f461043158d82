"""A stored matrix -> a packed weight, some rows at a time, so that no second copy is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.kernels.packed import FORMATS, PackedWeight, pack_chunks
from paceline.models.dequantize import F32, Bytes, Format
from paceline.models.quantize import ENCODERS
from paceline.models.tensor_file import TensorFile

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

    def format_of(self, stored: str, width: int) -> str:
        """What a matrix of that stored format is packed as; float32 where that has no kernel."""
        match self.kind:
            case "int4":
                return "Q4_1" if width % 256 else "Q4_K"
            case "int8":
                return "Q8_0"
            case "bfloat16":
                return "BF16"
            case None if stored in FORMATS:
                return stored
            case _:
                return "F32"

    def load(
        self, file: TensorFile, name: str, heights: Sequence[int], arrange: Arrange | None = None
    ) -> list[PackedWeight]:
        """Pack matrices that lie one below the other; `arrange` sees all rows of one at once.

        Raises:
            UnsupportedModelError: their width does not fit the format.
        """
        stored, start, packed = file.tensors[name], 0, []
        width = stored.shape[1]
        target = self.format_of(stored.format.name, width)
        encode = _encoder(stored.format, target)
        for height in heights:
            stop = start + height
            chunks: Iterable[Bytes] = map(encode, _row_chunks(file, name, start, stop))
            if arrange is not None:
                rows = torch.from_numpy(np.concatenate(list(chunks)))
                chunks = [arrange(rows).contiguous().numpy()]
            packed.append(pack_chunks(target, (height, width), chunks))
            start = stop
        return packed

    def pack(self, weight: Tensor, stored: str) -> PackedWeight:
        """Pack weight[O, I] float32, which was decoded from that format."""
        target = self.format_of(stored, weight.shape[1])
        rows = weight.contiguous().numpy().view(np.uint8)
        chunks = [_encoder(F32, target if target in ENCODERS else "F32")(rows)]
        return pack_chunks(target, (weight.shape[0], weight.shape[1]), chunks)


def _row_chunks(file: TensorFile, name: str, start: int, stop: int) -> Iterator[Bytes]:
    """Stored rows, a multiple of 16 at a time; their pages go when the next ones are asked for."""
    stored = file.tensors[name]
    row_bytes = max(1, stored.size_bytes // stored.shape[0])
    size = max(1, _CHUNK_BYTES // row_bytes // 16) * 16
    for first in range(start, stop, size):
        last = min(first + size, stop)
        yield file.rows(name, first, last)
        file.forget_rows(name, first, last)


def _encoder(source: Format, target: str) -> Callable[[Bytes], Bytes]:
    """rows[n, stored bytes] -> rows[n, target bytes]; as they are where the format stays."""
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
