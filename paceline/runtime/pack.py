"""Requests and their trees -> the flat rows of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.kernels.batch import Batch, Segment
from paceline.tree import NO_DRAFT, Draft


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """What one request contributes to a pass: some of its tokens, then its draft's nodes."""

    tokens: Sequence[int]
    """The tokens to run; the last one is the root of the draft."""
    start: int
    """Logical position of the first of them; as many tokens are in the cache already."""
    slots: Tensor
    """slots[start + len(tokens) + len(draft)] of every position, then of the nodes."""
    draft: Draft = NO_DRAFT
    wants_logits: bool = True
    """Whether the last token's and the nodes' logits are wanted (not within a prompt)."""

    @property
    def logit_count(self) -> int:
        """How many of the rows have logits."""
        return len(self.draft) + 1 if self.wants_logits else 0


def pack(work: Sequence[Rows], device: str = "cpu", hidden_layers: tuple[int, ...] = ()) -> Batch:
    """Lay the rows of several requests side by side."""
    ids: list[int] = []
    positions: list[int] = []
    slots: list[Tensor] = []
    segments: list[Segment] = []
    logit_rows: list[int] = []
    for rows in work:
        first, count = len(ids), len(rows.tokens)
        root = first + count - 1
        ids += rows.tokens
        ids += rows.draft.tree.tokens
        positions += range(rows.start, rows.start + count)
        positions += [rows.start + count - 1 + depth for depth in rows.draft.tree.depths[1:]]
        slots.append(rows.slots[rows.start : rows.start + count + len(rows.draft)])
        segments.append(
            Segment(
                start=first,
                context_slots=rows.slots[: rows.start].to(device),
                parents=(
                    *range(-1, count - 1),
                    *(count - 1 + parent for parent in rows.draft.tree.parents),
                ),
            )
        )
        if rows.wants_logits:
            logit_rows += range(root, root + len(rows.draft) + 1)
    return Batch(
        ids=torch.tensor(ids, dtype=torch.int64, device=device),
        positions=torch.tensor(positions, dtype=torch.int64, device=device),
        slots=torch.cat(slots).to(device),
        segments=tuple(segments),
        logit_rows=torch.tensor(logit_rows, dtype=torch.int64, device=device),
        hidden_layers=hidden_layers,
    )
