"""The exponential race: id v arrives at E_v / law(v), E_v standard exponential; first come wins.

With E = -log u it is the Gumbel argmax: -log(E_v / law(v)) = log law(v) + g_v. Noise comes in runs
of 64 neighbouring ids. Of 64 exponentials the smallest is one of mean 1/64, any id is as likely to
hold it, and the rest exceed it by exponentials again (they have no memory). So one number a run
bounds all its arrivals from below, and only runs that could still win are drawn in full.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from paceline.chooser.bits import GOLDEN, Bits, exponentials, mix_array, streams
from paceline.chooser.draws import Law
from paceline.chooser.sparse import SparseLaw

RUN = 64
SCOUTS = 8
"""Runs drawn in full first, to learn how early the winner is at the latest."""
FEW = 64
"""So many runs are drawn outright: sending scouts would cost more."""

STACKED = 1 << 14
"""Laws of so few ids race side by side, though it takes a copy; larger ones one by one."""
CROWD = 1 / 8
"""Where more of the ids have weight, a sparse law is written out: bounds spare most draws then."""

Floats = NDArray[np.float64]
Ids = NDArray[np.intp]


def winners(laws: Sequence[Law], keys: Sequence[int], rank: int = 0) -> list[int]:
    """`finish` for laws of any kind; the noise of a sparse one is drawn for its own ids only."""
    sparse, dense = dict[int, SparseLaw](), dict[int, Floats]()
    for n, law in enumerate(laws):
        if not isinstance(law, SparseLaw):
            dense[n] = np.asarray(law, dtype=np.float64)
        elif len(law.ids) > CROWD * law.size:
            dense[n] = law.dense()
        else:
            sparse[n] = law
    won = finish_sparse(list(sparse.values()), [keys[n] for n in sparse], rank)
    found = dict(zip(sparse, won, strict=True))
    for group in side_by_side(dense):
        table = np.stack([dense[n] for n in group]) if len(group) > 1 else dense[group[0]][None]
        found.update(zip(group, finish(table, [keys[n] for n in group], rank), strict=True))
    return [found[n] for n in range(len(laws))]


def side_by_side(laws: Mapping[int, Floats]) -> list[list[int]]:
    """The names of the laws, those that race together in one list."""
    if any(len(law) > STACKED for law in laws.values()):
        return [[n] for n in laws]
    return [list(laws)] if laws else []


def finish_sparse(laws: Sequence[SparseLaw], keys: Sequence[int], rank: int) -> list[int]:
    """`finish` on the ids that have weight: each id's noise is a function of its key and place."""
    if not laws:
        return []
    ids = np.concatenate([law.ids for law in laws]).astype(np.uint64)
    ends = np.cumsum([len(law.ids) for law in laws])
    key = np.repeat(np.array(keys, dtype=np.uint64), np.diff(ends, prepend=0))
    run, lane = np.divmod(ids, np.uint64(RUN))
    own = mix_array(key + (run + np.uint64(1)) * np.uint64(GOLDEN))
    noise = exponentials(mix_array(own + (lane + np.uint64(1)) * np.uint64(GOLDEN)))
    noise[own % np.uint64(RUN) == lane] = 0
    noise += exponentials(own) / RUN
    with np.errstate(divide="ignore", over="ignore"):
        times = noise / np.concatenate([law.probs for law in laws])
    parts = np.split(times, ends[:-1])
    return [int(law.ids[place(part, rank)]) for law, part in zip(laws, parts, strict=True)]


def finish(laws: Floats, keys: Sequence[int], rank: int = 0) -> list[int]:
    """For each law of laws[N, V] and the noise of its key, the id `rank` places behind the first.

    Where fewer ids have weight, the last of them.
    """
    by_run = split(laws)
    bits = streams(np.array(keys, dtype=np.uint64), by_run.shape[1])  # [N, runs]
    with np.errstate(divide="ignore", over="ignore"):
        rows, runs = contenders(by_run, bits, rank)
        times = arrivals(by_run, bits, rows, runs)  # [M, RUN]
    starts = np.searchsorted(rows, np.arange(len(laws) + 1)).tolist()
    found = []
    for start, end in itertools.pairwise(starts):
        run, lane = divmod(place(times[start:end].ravel(), rank), RUN)
        found.append(int(runs[start + run]) * RUN + lane)
    return found


def split(laws: Floats) -> Floats:
    """laws[N, V] as [N, runs, RUN]; ids that fill up the last run have no weight."""
    N, V = laws.shape
    if V % RUN:
        laws = np.concatenate([laws, np.zeros((N, -V % RUN))], axis=1)
    return laws.reshape(N, -1, RUN)


def contenders(by_run: Floats, bits: Bits, rank: int) -> tuple[Ids, ...]:
    """(row[M], run[M]) of all runs that may hold an id among the first rank + 1, in order."""
    N, runs = bits.shape
    scouts = max(SCOUTS, rank + 1)
    if runs <= max(scouts, FEW // N):
        return np.nonzero(np.ones(bits.shape, dtype=bool))
    bounds = exponentials(bits) / RUN / by_run.max(axis=2)
    ahead = np.argpartition(bounds, scouts - 1, axis=1)[:, :scouts].ravel()
    times = arrivals(by_run, bits, np.repeat(np.arange(N), scouts), ahead).reshape(N, -1)
    latest = times.min(axis=1) if rank == 0 else np.partition(times, rank, axis=1)[:, rank]
    return np.nonzero(bounds <= latest[:, None])


def arrivals(by_run: Floats, bits: Bits, rows: Ids, runs: Ids) -> Floats:
    """When each id of a run arrives[M, RUN]; without weight never, at infinity."""
    own = bits[rows, runs]
    noise = exponentials(streams(own, RUN))
    noise[np.arange(len(own)), (own % np.uint64(RUN)).astype(np.intp)] = 0
    noise += exponentials(own)[:, None] / RUN
    noise /= by_run[rows, runs]
    return noise


def place(times: Floats, rank: int) -> int:
    """Index of the arrival `rank` places behind the first, or of the last that arrives at all."""
    if rank == 0:
        return int(times.argmin())
    arriving = int(np.isfinite(times).sum())
    return int(times.argsort(kind="stable")[min(rank, arriving - 1)])
