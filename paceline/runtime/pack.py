"""Requests and their trees -> the flat rows of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from paceline.cache import Slots
from paceline.kernels.batch import Batch, Segment
from paceline.tree import NO_DRAFT, Draft


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """What one request contributes to a pass: some of its tokens, then its draft's nodes."""

    tokens: Sequence[int]
    """The tokens to run; the last one is the root of the draft."""
    start: int
    """Logical position of the first of them; as many tokens are in the cache already."""
    slots: Slots
    """slots[start + len(tokens) + len(draft)] of every position, then of the nodes."""
    draft: Draft = NO_DRAFT
    logit_tokens: int = 1
    """Of the tokens, counted from the last, those whose logits are wanted beside the nodes'."""


def pack(work: Sequence[Rows], hidden_layers: tuple[int, ...] = ()) -> Batch:
    """Lay the rows of several requests side by side."""
    ids: list[int] = []
    positions: list[int] = []
    logit_rows: list[int] = []
    slots: list[Slots] = []
    segments: list[Segment] = []
    for rows in work:
        tree, first, count = rows.draft.tree, len(ids), len(rows.tokens)
        root = first + count - 1
        ids += rows.tokens
        positions += range(rows.start, rows.start + count)
        parents = tuple(range(-1, count - 1))
        if tree:
            ids += tree.tokens
            positions += [rows.start + count - 1 + depth for depth in tree.depths[1:]]
            parents += tuple([count - 1 + parent for parent in tree.parents])
        slots.append(rows.slots[rows.start : rows.start + count + len(tree)])
        segments.append(Segment(first, torch.from_numpy(rows.slots[: rows.start]), parents))
        logit_rows += range(root + 1 - rows.logit_tokens, root + len(tree) + 1)
    T = len(ids)
    numbers = torch.from_numpy(np.array(ids + positions + logit_rows, dtype=np.int64))
    own_slots = np.concatenate(slots) if len(slots) > 1 else slots[0]
    return Batch(
        numbers[:T],
        numbers[T : 2 * T],
        torch.from_numpy(own_slots),
        tuple(segments),
        numbers[2 * T :],
        hidden_layers,
    )


@dataclass(frozen=True, eq=False)
class NextRows:
    """A pass of one row a request, laid out before the rows' tokens are known."""

    batch: Batch
    tokens: Slots
    """tokens[B], to be written before the pass: the memory of batch.ids."""


def pack_next(slots: Sequence[Slots]) -> NextRows:
    """Lay out the rows; slots[i] are those of a request's tokens, its row's own the last."""
    B = len(slots)
    numbers = np.array(
        [[0] * B, [len(own) - 1 for own in slots], [own[-1] for own in slots], range(B)],
        dtype=np.int64,
    )
    ids, positions, own_slots, logit_rows = torch.from_numpy(numbers)
    segments = [Segment(row, torch.from_numpy(own[:-1]), (-1,)) for row, own in enumerate(slots)]
    batch = Batch(ids, positions, own_slots, tuple(segments), logit_rows)
    return NextRows(batch, numbers[0])
