"""Fuzzed GGUF files: a model or one of two errors, in bounded memory, whatever the bytes."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import ModelFileError, UnsupportedModelError
from paceline.models.load import load_model
from tests.model_files import write_gguf
from tests.tiny_models import SPECS, random_weights

SPEC = replace(SPECS["qkv biases"], num_layers=1, hidden_size=32, head_size=4, intermediate_size=32)
MEMORY_BYTES = 32 << 20
HOSTILE = [0, 1, 2, 7, 8, 255, 2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63, 2**63 - 1, 2**64 - 1]
FORMATS = ("F32", "Q8_0", "F16", "Q5_0", "BF16")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path, SPEC, random_weights(SPEC), FORMATS)
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "model.gguf"


def loads_or_says_why(data: bytes, path: Path) -> bool:
    """Whether it loads; fails on any other error, and on memory that grows with a wrong number."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        model = load_model(path)
    except ModelFileError as error:
        assert str(error).startswith(str(path))
        assert error.field
        return False
    except UnsupportedModelError as error:
        assert str(path) in str(error)
        return False
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY_BYTES
    assert model.weight_bytes < MEMORY_BYTES
    return True


def header_bytes(data: bytes) -> int:
    """Where the tensors' data begin, nearly: the last name and its description."""
    return data.rindex(b"output.weight") + 80


fuzzing = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_the_whole_file_loads(whole: bytes, scratch: Path) -> None:
    assert loads_or_says_why(whole, scratch)


@fuzzing
@given(data=st.data())
def test_overwritten_bytes(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, header_bytes(whole)))
        damaged[place] = data.draw(st.integers(0, 255))
    loads_or_says_why(bytes(damaged), scratch)


@fuzzing
@given(data=st.data())
def test_hostile_numbers(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    place = data.draw(st.integers(0, header_bytes(whole)))
    layout = data.draw(st.sampled_from(["<Q", "<I"]))
    number = data.draw(st.sampled_from(HOSTILE)) & (2**64 - 1 if layout == "<Q" else 2**32 - 1)
    size = struct.calcsize(layout)
    loads_or_says_why(
        whole[:place] + struct.pack(layout, number) + whole[place + size :], scratch
    )


@fuzzing
@given(data=st.data())
def test_hostile_counts(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    """The tensor count and the key count, which stand at fixed places."""
    place = data.draw(st.sampled_from([8, 16]))
    number = data.draw(st.one_of(st.sampled_from(HOSTILE), st.integers(0, 2**64 - 1)))
    (before,) = struct.unpack_from("<Q", whole, place)
    loaded = loads_or_says_why(
        whole[:place] + struct.pack("<Q", number) + whole[place + 8 :], scratch
    )
    assert loaded == (number == before)


@fuzzing
@given(data=st.data())
def test_truncated_files(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    end = data.draw(st.integers(0, len(whole) - 1))
    padding = len(whole) - len(whole.rstrip(b"\0"))
    loaded = loads_or_says_why(whole[:end], scratch)
    assert not loaded or end >= len(whole) - padding


@fuzzing
@given(data=st.data())
def test_bytes_put_in_and_taken_out(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    place = data.draw(st.integers(0, header_bytes(whole)))
    gone = data.draw(st.integers(0, 64))
    new = data.draw(st.binary(max_size=64))
    loads_or_says_why(whole[:place] + new + whole[place + gone :], scratch)


@fuzzing
@given(tail=st.binary(max_size=300))
def test_random_bytes_behind_the_magic(tail: bytes, scratch: Path) -> None:
    start = b"GGUF" + struct.pack("<I", 3)
    assert not loads_or_says_why(start + tail, scratch)


def test_the_data_is_read_as_it_is(whole: bytes, scratch: Path) -> None:
    """Not a number in the data is the file's affair: it loads, and it stays."""
    damaged = bytearray(whole)
    start = whole.rindex(b"\0" * 16)
    damaged[-400:-396] = struct.pack("<f", torch.nan)
    assert start
    assert loads_or_says_why(bytes(damaged), scratch)
