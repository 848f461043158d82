"""A model and its paged keys and values: runs passes, moves accepted rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paceline.cache import Slots
from paceline.kernels.batch import Batch, KVTensors, PassOutput
from paceline.models import LoadedModel
from paceline.runtime.pack import Rows, pack


class Runner:
    """One model and its cache; target and draft models alike."""

    def __init__(self, model: LoadedModel, kv: KVTensors) -> None:
        self.model, self.kv = model, kv

    @classmethod
    def allocate(cls, model: LoadedModel, num_slots: int, kv_dtype: str = "auto") -> Runner:
        """With a cache of its own for `num_slots` tokens."""
        return cls(model, model.allocate_kv(num_slots, kv_dtype))

    def forward(self, batch: Batch) -> PassOutput:
        """Run one pass."""
        return self.model.forward(batch, self.kv)

    @torch.inference_mode()
    def move(self, sources: Slots, targets: Slots) -> None:
        """Copy keys and values from slots to slots (sources[M], targets[M]); reads come first."""
        read, written = torch.from_numpy(sources), torch.from_numpy(targets)
        for tensor in self.kv.tensors:
            tensor[:, written] = tensor[:, read]


def next_logits(model: LoadedModel, tokens: Sequence[int]) -> Tensor:
    """logits[V] after `tokens`, computed by a pass of their own."""
    rows = Rows(tokens=tokens, start=0, slots=np.arange(len(tokens)))
    return Runner.allocate(model, len(tokens)).forward(pack([rows])).logits[0]
