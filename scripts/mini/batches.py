"""Rows of tokens: a function of schedule and step alone, so a resumed run sees the same."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .recipe import SEED, Schedule
from .tokenizer import Breaks, Ids


def rows(ids: Ids, breaks: Breaks, schedule: Schedule, step: int) -> Tensor:
    """The rows of one step: rows[B, T + 1], inputs and the token after each."""
    length = schedule.row_length(step)
    count = schedule.step_tokens // length
    starts = (len(ids) - 1) // length
    share = schedule.cycle(step).split_breaks
    coins = np.random.default_rng([SEED, step])
    picked = []
    for index in range(step * count, (step + 1) * count):
        epoch, place = divmod(index, starts)
        start = int(_order(starts, length, epoch)[place]) * length
        picked.append(_split(ids[start : start + length + 1], breaks, share, coins))
    return torch.from_numpy(np.stack(picked))


def _split(row: Ids, breaks: Breaks, share: float, coins: np.random.Generator) -> Ids:
    """Cut the indentation off some line breaks; what no longer fits falls off the end."""
    if not share:
        return row
    cut: list[int] = []
    for whole, coin in zip(row.tolist(), coins.random(len(row)), strict=True):
        cut += breaks[whole] if coin < share and whole in breaks else (whole,)
    return np.array(cut[: len(row)], dtype=np.int64)


def held_out_rows(ids: Ids, length: int, limit_tokens: int | None = None) -> Tensor:
    """Consecutive rows of the held-out split: rows[B, T + 1]."""
    count = (min(len(ids), limit_tokens or len(ids)) - 1) // length
    return torch.from_numpy(
        np.stack([ids[i * length : (i + 1) * length + 1] for i in range(count)])
    )


_ORDERS: dict[tuple[int, int, int], npt.NDArray[np.int64]] = {}


def _order(starts: int, length: int, epoch: int) -> npt.NDArray[np.int64]:
    key = (starts, length, epoch)
    if key not in _ORDERS:
        _ORDERS[key] = np.random.default_rng([SEED, length, epoch]).permutation(starts)
    return _ORDERS[key]
