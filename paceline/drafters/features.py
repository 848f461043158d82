"""What a drafter with heads keeps of each request: the target's states of the tokens it ran."""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.drafters.base import Observation


def committed_rows(seen: Observation) -> list[int]:
    """The rows of an observation that hold the request's tokens, the last committed one excepted.

    Row 0 is the token at `seen.start`; the accepted path follows the tokens that were run. The last
    committed token came after them: no pass has run it.
    """
    count = len(next(iter(seen.hidden.values())))
    root = count - len(seen.draft) - 1
    return [*range(root + 1), *(root + row for row in seen.path)]


def states(seen: Observation, layer: int) -> Tensor:
    """hidden[R, E] float32 of the request's tokens from `seen.start` on, a copy."""
    hidden = seen.hidden[layer]
    return (
        hidden[committed_rows(seen)].float() if seen.draft else hidden.to(torch.float32, copy=True)
    )
