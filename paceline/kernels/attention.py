"""Attention of each row along its own path: the context, its ancestors, itself."""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.kernels.batch import Segment


def attend_segment(
    query: Tensor, key: Tensor, value: Tensor, context: tuple[Tensor, Tensor], segment: Segment
) -> Tensor:
    """Attend for one request's rows.

    Each row runs alone, over its path's keys in logical order and in one dense buffer, so its bits
    depend on its path alone: not on the slots, nor on siblings, nor on how a prompt was cut.

    Args:
        query: query[rows, H, D].
        key: key[rows, G, D].
        value: value[rows, G, D].
        context: keys and values [context, G, D] in logical order.
        segment: whose rows these are.

    Returns:
        [rows, H, D].
    """
    keys, values = torch.cat((context[0], key)), torch.cat((context[1], value))
    context_rows = len(context[0])
    out = torch.empty_like(query)
    for row, path in enumerate(paths(segment)):
        own = _along(path, context_rows)
        out[row] = attend_row(query[row], keys[own], values[own])
    return out


def attend_row(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """softmax(query · keysᵀ / sqrt(D)) · values for one row; the softmax in float32.

    Args:
        query: query[H, D]; head h reads the kv head h // (H / G).
        keys: keys[n, G, D], contiguous.
        values: values[n, G, D], contiguous.

    Returns:
        [H, D].
    """
    grouped = query.view(keys.shape[1], -1, query.shape[-1])  # [G, H / G, D]
    scores = torch.bmm(grouped, keys.permute(1, 2, 0)) * query.shape[-1] ** -0.5  # [G, H / G, n]
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
    return torch.bmm(weights, values.transpose(0, 1)).flatten(0, 1)


def paths(segment: Segment) -> list[tuple[int, ...]]:
    """For each row of the segment its path within it, itself last."""
    if segment.is_chain:
        return [tuple(range(row + 1)) for row in range(segment.rows)]
    found: list[tuple[int, ...]] = []
    for row, parent in enumerate(segment.parents):
        found.append((*(found[parent] if parent >= 0 else ()), row))
    return found


def _along(path: tuple[int, ...], context_rows: int) -> slice | Tensor:
    """The index of the context and a path: a slice, hence a view, where the path has no gap."""
    if path[-1] == len(path) - 1:
        return slice(0, context_rows + len(path))
    own = [context_rows + row for row in path]
    return torch.cat((torch.arange(context_rows), torch.tensor(own)))
