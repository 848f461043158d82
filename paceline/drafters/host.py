"""What the engine offers a drafter when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.cache import BlockPool
from paceline.kernels.batch import KVTensors
from paceline.models import LoadedModel


@dataclass(frozen=True, eq=False, kw_only=True)
class Host:
    """The target and the engine's shared cache books, as a drafter may use them."""

    target: LoadedModel
    kv: KVTensors
    """The target's own keys and values, by slot; only slots of drafted tokens may be written."""
    pool: BlockPool
    max_rows: int
    device: str
    kernels: str

    @property
    def num_slots(self) -> int:
        """Slots of the cache: what a drafter with keys and values of its own needs too."""
        return self.pool.num_blocks * self.pool.block_tokens
