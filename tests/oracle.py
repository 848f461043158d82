"""A model without weights whose logits are a function of the whole prefix, read from the cache.

Each slot's key holds the token written there, so a row's law depends on every slot of its path: a
wrong slot, position, mask or move changes the text. A row's hidden state is the length of its path
and its token. Fast enough for thousands of passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace

import numpy as np
import torch

from paceline.kernels.batch import Batch, KVTensors, PassOutput


@dataclass
class Letters:
    """A tokenizer whose id i is the letter i of the alphabet."""

    vocab_size: int = 6
    marks: dict[str, int] = field(default_factory=dict)
    """Ids that have a name, too."""
    chat_template = None
    special_ids = frozenset[int]()

    def token_to_id(self, name: str) -> int | None:
        return self.marks.get(name)

    def token_bytes(self, i: int) -> bytes:
        return self.decode([i]).encode()

    def names(self) -> dict[int, str]:
        return {i: chr(97 + i) for i in range(self.vocab_size)}

    def encode(self, text: str, **_: bool) -> list[int]:
        return [ord(c) - 97 for c in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(97 + i) for i in ids)

    def stream(self) -> SimpleNamespace:
        return SimpleNamespace(push=lambda i: chr(97 + i), flush=lambda: "")


@dataclass
class Oracle:
    """A target (or drafter) of `vocab_size` letters; `salt` makes another one of the same kind."""

    vocab_size: int = 6
    max_model_len: int = 64
    salt: int = 0
    sharpness: float = 2.0
    eos_ids: frozenset[int] = frozenset()
    name: str = "oracle"
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    tokenizer: Letters = field(default_factory=Letters)
    passes: list[int] = field(default_factory=list)
    """Rows of each pass."""

    @property
    def spec(self) -> SimpleNamespace:
        return SimpleNamespace(
            vocab_size=self.vocab_size,
            max_model_len=self.max_model_len,
            num_layers=1,
            num_kv_heads=1,
            head_size=2,
            eos_ids=self.eos_ids,
        )

    def kv_bytes_per_token(self, kv_dtype: str = "auto") -> int:
        return sum(tensor.nbytes for tensor in self.allocate_kv(1, kv_dtype).tensors)

    def allocate_kv(self, num_slots: int, kv_dtype: str = "auto") -> KVTensors:
        assert kv_dtype == "auto", "tokens and positions would not survive another type"
        return KVTensors(torch.full((1, num_slots, 1, 2), -1.0), torch.zeros(1, num_slots, 1, 2))

    def forward(self, batch: Batch, kv: KVTensors) -> PassOutput:
        assert int(batch.ids.max()) < self.vocab_size, "an id has no row in the embedding"
        assert int(batch.positions.max()) < self.max_model_len, "a position is out of the context"
        self.passes.append(len(batch.ids))
        kv.keys[0, batch.slots, 0, 0] = torch.from_numpy(batch.ids).float()
        kv.keys[0, batch.slots, 0, 1] = torch.from_numpy(batch.positions).float()
        wanted = set(batch.logit_rows.tolist())
        logits, hidden = [], []
        for segment in batch.segments:
            for row, path in enumerate(self.paths(segment.parents)):
                at = np.concatenate(
                    [segment.context_slots, batch.slots[[segment.start + r for r in path]]]
                )
                tokens, positions = kv.keys[0, at, 0].T.tolist()
                assert positions == list(range(len(positions)))
                if segment.start + row in wanted:
                    logits.append(self.logits([int(t) for t in tokens]))
                hidden.append(torch.tensor([len(tokens), tokens[-1]]))
        stacked = torch.stack(logits) if logits else torch.empty(0, self.vocab_size)
        return PassOutput(stacked, dict.fromkeys(batch.hidden_layers, torch.stack(hidden)))

    @staticmethod
    def paths(parents: Sequence[int]) -> list[list[int]]:
        paths: list[list[int]] = []
        for row, parent in enumerate(parents):
            paths.append([*(paths[parent] if parent >= 0 else []), row])
        return paths

    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        """logits[V] after the tokens."""
        assert all(t >= 0 for t in tokens), "a slot was read that was never written"
        return noise(self.salt, tuple(tokens), self.vocab_size) * self.sharpness


@cache
def noise(salt: int, tokens: tuple[int, ...], size: int) -> torch.Tensor:
    """noise[size], standard normal: a function of its arguments."""
    rng = np.random.default_rng([salt, len(tokens), *tokens])
    return torch.tensor(rng.normal(size=size), dtype=torch.float32)
