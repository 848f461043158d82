"""A model and its paged keys and values: runs passes, moves accepted rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paceline.cache import Slots
from paceline.kernels.batch import Batch, PassOutput
from paceline.models import LoadedModel
from paceline.runtime.pack import Rows, pack


class Runner:
    """One model with a cache of `num_slots` tokens; target and draft models alike."""

    def __init__(self, model: LoadedModel, num_slots: int) -> None:
        self.model = model
        self._kv = model.allocate_kv(num_slots)

    def forward(self, batch: Batch) -> PassOutput:
        """Run one pass."""
        if self.model.device != "cpu":
            batch = batch.to(self.model.device)
        return self.model.forward(batch, self._kv)

    @torch.inference_mode()
    def move(self, sources: Slots, targets: Slots) -> None:
        """Copy keys and values from slots to slots (sources[M], targets[M]); reads come first."""
        read, written = torch.from_numpy(sources), torch.from_numpy(targets)
        for tensor in (self._kv.keys, self._kv.values):
            tensor[:, written] = tensor[:, read]


def next_logits(model: LoadedModel, tokens: Sequence[int]) -> Tensor:
    """logits[V] after `tokens`, computed by a pass of their own."""
    rows = Rows(tokens=tokens, start=0, slots=np.arange(len(tokens)))
    return Runner(model, len(tokens)).forward(pack([rows])).logits[0]
