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
PLACES = st.integers(0, 1 << 20)
NUMBERS = st.one_of(st.sampled_from(HOSTILE), st.integers(0, 2**64 - 1))
FORMATS = ("F32", "Q8_0", "F16", "Q5_0", "BF16")


class Bench:
    """A whole file, and a path for damaged ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.whole = path.read_bytes()

    @property
    def header_bytes(self) -> int:
        """Where the tensors' data begin, nearly: behind the last name and its description."""
        return self.whole.rindex(b"output.weight") + 80

    def loads(self, data: bytes) -> bool:
        """Whether it loads; else there is one of the two errors, and never a need of memory."""
        self.path.write_bytes(data)
        tracemalloc.start()
        try:
            model = load_model(self.path)
        except (ModelFileError, UnsupportedModelError) as error:
            complaint = str(error)
        else:
            complaint = ""
            assert model.weight_bytes < MEMORY_BYTES
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MEMORY_BYTES
        assert not complaint or complaint.startswith(str(self.path))
        return not complaint


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path, SPEC, random_weights(SPEC), FORMATS)
    return Bench(path)


fuzzing = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_the_whole_file_loads(bench: Bench) -> None:
    assert bench.loads(bench.whole)


@fuzzing
@given(edits=st.lists(st.tuples(PLACES, st.integers(0, 255)), min_size=1, max_size=4))
def test_overwritten_bytes(edits: list[tuple[int, int]], bench: Bench) -> None:
    damaged = bytearray(bench.whole)
    for place, byte in edits:
        damaged[place % bench.header_bytes] = byte
    bench.loads(bytes(damaged))


@fuzzing
@given(place=PLACES, number=NUMBERS, layout=st.sampled_from(["<Q", "<I"]))
def test_hostile_numbers(place: int, number: int, layout: str, bench: Bench) -> None:
    place, size = place % bench.header_bytes, struct.calcsize(layout)
    packed = struct.pack("<Q", number)[:size]
    bench.loads(bench.whole[:place] + packed + bench.whole[place + size :])


@fuzzing
@given(place=st.sampled_from([8, 16]), number=NUMBERS)
def test_hostile_counts(place: int, number: int, bench: Bench) -> None:
    """The tensor count and the key count, which stand at fixed places."""
    (right,) = struct.unpack_from("<Q", bench.whole, place)
    damaged = bench.whole[:place] + struct.pack("<Q", number) + bench.whole[place + 8 :]
    assert bench.loads(damaged) == (number == right)


@fuzzing
@given(place=PLACES)
def test_truncated_files(place: int, bench: Bench) -> None:
    end = place % len(bench.whole)
    padding = len(bench.whole) - len(bench.whole.rstrip(b"\0"))
    loaded = bench.loads(bench.whole[:end])
    assert not loaded or end >= len(bench.whole) - padding


@fuzzing
@given(place=PLACES, gone=st.integers(0, 64), new=st.binary(max_size=64))
def test_bytes_put_in_and_taken_out(place: int, gone: int, new: bytes, bench: Bench) -> None:
    place %= bench.header_bytes
    bench.loads(bench.whole[:place] + new + bench.whole[place + gone :])


@fuzzing
@given(tail=st.binary(max_size=300))
def test_random_bytes_behind_the_magic(tail: bytes, bench: Bench) -> None:
    start = b"GGUF" + struct.pack("<I", 3)
    assert not bench.loads(start + tail)


def test_the_data_is_read_as_it_is(bench: Bench) -> None:
    """Not a number in the data is the file's affair: it loads."""
    damaged = bench.whole[:-64] + struct.pack("<16f", *[torch.nan] * 16)
    assert bench.loads(damaged)
