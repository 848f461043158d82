"""Attention of each row along its own path: the context, its ancestors, itself.

A row's bits depend on its path alone: not on slots, siblings, or how a prompt was cut. Keys stand
in the path's logical order, in blocks of LANES, so a key has the same place in the same product
whoever shares the pass; and what stands behind the path has weight zero, which adds nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.kernels.batch import Segment
from paceline.kernels.ops import Attend
from paceline.kernels.rows import LANES, fill, linear, soft_cap, tiles

SLAB_ROWS = 64
"""Rows that attend in one go; bounds the scores in memory and what is computed to be masked."""


def attend_segment(
    op: Attend,
    query: Tensor,
    own: tuple[Tensor, Tensor],
    context: tuple[Tensor, Tensor],
    segment: Segment,
) -> Tensor:
    """Attend for one request's rows.

    Args:
        op: scale, window and cap.
        query: query[rows, H, D].
        own: the rows' keys and values [rows, G, D].
        context: keys and values [context, G, D] in logical order.
        segment: whose rows these are.

    Returns:
        [rows, H, D].
    """
    before = len(context[0])
    keys, values = (torch.cat(parts) for parts in zip(context, own, strict=True))
    along = paths(segment)
    dense = [row for row, path in enumerate(along) if path[-1] == len(path) - 1]
    out = torch.empty_like(query)
    for start in range(0, len(dense), SLAB_ROWS):
        slab = dense[start : start + SLAB_ROWS]
        lengths = torch.tensor([before + row + 1 for row in slab], device=query.device)
        end = before + slab[-1] + 1
        out[slab] = attend_rows(op, query[slab], keys[:end], values[:end], lengths)
    for row in set(range(segment.rows)) - set(dense):
        path = [*range(before), *(before + r for r in along[row])]
        at = torch.tensor(path, device=query.device)
        out[row] = attend_rows(op, query[row, None], keys[at], values[at])[0]
    return out


def attend_rows(
    op: Attend, query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor | None = None
) -> Tensor:
    """softmax(cap(scale · query · keysᵀ)) · values; the softmax in float32.

    Args:
        op: scale, window and cap.
        query: query[M, H, D]; head h reads the kv head h // (H / G).
        keys: keys[n, G, D] in logical order.
        values: values[n, G, D].
        lengths: lengths[M], how many keys each row sees, from the first; None for all.

    Returns:
        [M, H, D].
    """
    M, n, D = len(query), len(keys), query.shape[-1]
    keys, values = fill(keys, 0, LANES), fill(values, 0, LANES)
    seen = torch.full((M, 1), n, device=query.device) if lengths is None else lengths[:, None]
    at = torch.arange(len(keys), device=query.device)
    hidden = at >= seen if op.window is None else (at >= seen) | (at < seen - op.window)
    heads = []
    for group, key, value in zip(
        query.chunk(keys.shape[1], 1), keys.unbind(1), values.unbind(1), strict=True
    ):
        scores = linear(group.reshape(-1, D), key) * op.scale  # [M · H / G, n]
        scores = scores if op.soft_cap is None else soft_cap(scores, op.soft_cap)
        scores = scores.view(M, -1, len(key)).masked_fill(hidden.unsqueeze(1), -torch.inf)
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
        heads.append(weighted_sum(weights.flatten(0, 1), value).view(M, -1, D))
    return torch.cat(heads, dim=1)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """weights[M, n] · values[n, D]; n a multiple of LANES, whose blocks are added in order."""
    if not weights.is_cpu:
        return weights @ values
    D = values.shape[1]
    wide = fill(values, 1, LANES)
    blocks = wide.view(-1, LANES, wide.shape[1]).transpose(1, 2)  # [n / LANES, D, LANES]
    sums = [
        torch.bmm(blocks, tile.view(len(tile), -1, LANES).permute(1, 2, 0)).sum(0)  # [D, ROW_TILE]
        for tile in tiles(weights)
    ]
    return torch.cat(sums, dim=1)[:D, : len(weights)].t()


def paths(segment: Segment) -> list[tuple[int, ...]]:
    """For each row of the segment its path within it, itself last."""
    if segment.is_chain:
        return [tuple(range(row + 1)) for row in range(segment.rows)]
    found: list[tuple[int, ...]] = []
    for row, parent in enumerate(segment.parents):
        found.append((*(found[parent] if parent >= 0 else ()), row))
    return found
