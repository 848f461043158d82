"""A text read by a model in chunks, as the engine would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from paceline.kernels import Batch, Segment
from paceline.models import LoadedModel


def read(model: LoadedModel, tokens: Sequence[int], chunk: int) -> Iterator[Tensor]:
    """logits[n, V] of each chunk of a text, in order."""
    kv = model.allocate_kv(len(tokens))
    for start in range(0, len(tokens), chunk):
        ids = tokens[start : start + chunk]
        rows = np.arange(start, start + len(ids))
        segment = Segment(0, np.arange(start), tuple(range(-1, len(ids) - 1)))
        batch = Batch(np.array(ids), rows, rows, (segment,), np.arange(len(ids)))
        yield model.forward(batch, kv).logits.clone()
