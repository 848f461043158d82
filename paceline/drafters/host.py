"""What the engine offers a drafter when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.cache import BlockPool
from paceline.models import LoadedModel


@dataclass(frozen=True, eq=False, kw_only=True)
class Host:
    """The target and the engine's shared cache books, as a drafter may use them."""

    target: LoadedModel
    pool: BlockPool
    max_rows: int
    device: str
    kernels: str
