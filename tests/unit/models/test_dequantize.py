"""Every number format decodes to the very bits that the gguf package decodes it to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from paceline.models.dequantize import GGML_FORMATS, GGML_NAMES
from paceline.models.mapped_file import MappedFile
from paceline.models.tensor_file import _CHUNK_VALUES, StoredTensor, TensorFile


@pytest.mark.parametrize("number", GGML_FORMATS, ids=lambda n: GGML_NAMES[n])
def test_random_blocks_bit_for_bit(number: int) -> None:
    kind, reference = GGML_FORMATS[number], gguf.GGMLQuantizationType(number)
    assert (kind.block_values, kind.block_bytes) == gguf.GGML_QUANT_SIZES[reference]
    blocks = np.random.default_rng(number).integers(0, 256, (999, kind.block_bytes), np.uint8)
    raw = blocks.view("<f4") if kind.name == "F32" else blocks
    raw = blocks.view("<f2") if kind.name == "F16" else raw
    with np.errstate(all="ignore"):
        found = kind.decode(blocks)
        expected = gguf.quants.dequantize(raw, reference)
    assert found.shape == (999, kind.block_values)
    assert found.dtype == np.float32
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), nan.reshape(found.shape))
    assert np.array_equal(
        found.view(np.uint32)[~nan.reshape(found.shape)], expected.view(np.uint32)[~nan]
    )


def test_names_are_ggml_s() -> None:
    for number, name in GGML_NAMES.items():
        if number in set(gguf.GGMLQuantizationType):
            assert gguf.GGMLQuantizationType(number).name == name


@pytest.mark.parametrize("number", GGML_FORMATS, ids=lambda n: GGML_NAMES[n])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tensor_of_several_chunks(number: int, dtype: torch.dtype, tmp_path: object) -> None:
    kind = GGML_FORMATS[number]
    count = (2 * _CHUNK_VALUES + 512) // kind.block_values
    blocks = np.zeros((count, kind.block_bytes), np.uint8)
    values = np.arange(count, dtype=np.float32)
    blocks[:, -1] = values % 7
    path = tmp_path / "blocks"  # type: ignore[operator]
    path.write_bytes(b"head" * 11 + blocks.tobytes())
    stored = StoredTensor(kind, (2, count * kind.block_values // 2), 44)
    file = TensorFile(MappedFile(path), {"t": stored})
    found = file.load("t", dtype)
    assert found.shape == stored.shape
    assert found.dtype == dtype
    expected = torch.from_numpy(kind.decode(blocks)).to(dtype)
    assert torch.equal(found.flatten(), expected.flatten())
    assert torch.equal(file.load("t", dtype), found), "pages that were given back come back"


@pytest.mark.parametrize("number", GGML_FORMATS, ids=lambda n: GGML_NAMES[n])
@pytest.mark.parametrize("blocks", [1, 3, "a chunk", "a chunk and 1"])
def test_every_value_is_assigned(
    number: int, blocks: int | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that starts as NaN ends without one, however the chunks fall."""
    kind = GGML_FORMATS[number]
    chunk = _CHUNK_VALUES // kind.block_values
    count = {"a chunk": chunk, "a chunk and 1": chunk + 1}.get(str(blocks)) or int(blocks)
    path = tmp_path / "zeros"
    path.write_bytes(bytes(count * kind.block_bytes))
    stored = StoredTensor(kind, (count * kind.block_values,), 0)

    def unwritten(size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.full((size,), torch.nan, dtype=dtype)

    monkeypatch.setattr(torch, "empty", unwritten)
    found = TensorFile(MappedFile(path), {"t": stored}).load("t", torch.float32)
    assert not found.isnan().any()


@pytest.mark.parametrize("number", GGML_FORMATS, ids=lambda n: GGML_NAMES[n])
def test_a_chunk_that_decodes_short_fails_the_load(number: int, tmp_path: Path) -> None:
    """A tensor is whole or not there."""
    kind = GGML_FORMATS[number]
    path = tmp_path / "zeros"
    path.write_bytes(bytes(4 * kind.block_bytes))
    short = replace(kind, decode=lambda blocks: kind.decode(blocks)[:-1])
    stored = StoredTensor(short, (4 * kind.block_values,), 0)
    with pytest.raises(RuntimeError, match="size"):
        TensorFile(MappedFile(path), {"t": stored}).load("t", torch.float32)
