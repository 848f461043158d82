"""Buffers of weights: side by side, aligned, zero, and gone when nobody holds them."""

from __future__ import annotations

import gc
import weakref

import torch

from paceline.kernels.arena import HUGE_PAGE, LINE, Arena, buffer


def test_buffers_follow_one_another_in_lines() -> None:
    arena = Arena(1 << 20)
    sizes = (100, 64, 1, 3000)
    taken = [arena.take(size) for size in sizes]
    starts = [each.data_ptr() - taken[0].data_ptr() for each in taken]
    assert starts == [0, 128, 192, 256]
    assert [len(each) for each in taken] == list(sizes)
    assert taken[0].data_ptr() % HUGE_PAGE == 0
    assert not any(int(each.max()) for each in taken)


def test_what_is_written_to_one_shows_in_no_other() -> None:
    arena = Arena(1 << 20)
    taken = [arena.take(size) for size in (65, 1, 4096, 127)]
    for i, each in enumerate(taken, start=1):
        each.fill_(i)
    assert [each.unique().tolist() for each in taken] == [[1], [2], [3], [4]]


def test_what_does_not_fit_gets_a_mapping_of_its_own() -> None:
    arena = Arena(1024)
    small, large, after = arena.take(1000), arena.take(5 << 20), arena.take(24)
    large.fill_(1)
    assert (len(small), len(large), len(after)) == (1000, 5 << 20, 24)
    assert large.data_ptr() % LINE == 0
    assert int(small.max()) == int(after.max()) == 0


def test_memory_ends_with_its_last_buffer() -> None:
    arena = Arena(1 << 20)
    first, second = arena.take(10), arena.take(10)
    chunk = arena._chunk()
    assert chunk is not None
    ended = weakref.ref(chunk)
    del chunk, first
    gc.collect()
    assert ended() is not None
    del second
    gc.collect()
    assert ended() is None
    assert int(arena.take(10).max()) == 0


def test_nothing_takes_nothing() -> None:
    assert torch.equal(buffer(0), torch.empty(0, dtype=torch.uint8))
