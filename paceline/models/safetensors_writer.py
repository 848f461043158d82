"""safetensors, written: the header, then the tensors, in one step that a kill cannot tear."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from paceline.files import write_whole

NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int8: "I8",
    torch.bool: "BOOL",
}


def write_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to `path`; a file that stood there stays whole until the new one is.

    Raises:
        OSError: the disk is full, or the place cannot be written.
    """
    header, offset = {}, 0
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    for name, tensor in dense.items():
        stop = offset + tensor.nbytes
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, stop],
        }
        offset = stop
    told = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    told += b" " * (-len(told) % 8)
    data = [struct.pack("<Q", len(told)), told]
    data += [tensor.view(torch.uint8).numpy().tobytes() for tensor in dense.values()]
    write_whole(path, b"".join(data))
