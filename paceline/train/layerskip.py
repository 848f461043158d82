"""Which of a target's layers draft best for it (Draft & Verify, arXiv 2309.08168), by search.

Starting with all layers, the one that costs the least agreement is left out, again and again; of
the sets on the way the one of the best predicted speedup is kept. Agreement is exact for a first
drafted token: a kept layer reads what the full pass left for the tokens before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paceline.drafters.checkpoint import describe_target, save_head
from paceline.drafters.layerskip import KIND
from paceline.errors import ConfigError
from paceline.kernels.batch import Batch, Segment
from paceline.models import LoadedModel
from paceline.models.progress import Report
from paceline.plan.throughput import best_k, expected_tokens, speedup
from paceline.runtime import Rows, Runner, pack
from paceline.train.text import read_corpus

MOST = 0.999
"""Agreement that is believed at most: of more, no finite draft would be the longest."""
USUAL = 4
"""Draft length by which sets are compared where none pays."""


@dataclass(frozen=True)
class Found:
    """A set of layers and what it promises."""

    layers: frozenset[int]
    agreement: float
    """How often its first drafted token is the target's own, greedily."""
    share: float
    """Bytes it reads, of those the target reads."""

    @property
    def best(self) -> int:
        """Tokens to draft."""
        return best_k(min(self.agreement, MOST), self.share)

    @property
    def tokens_per_pass(self) -> float:
        """Predicted, with one agreement for every position."""
        return expected_tokens(self.agreement, self.best)

    @property
    def speedup(self) -> float:
        """Predicted, with the best draft length; 1 where none pays."""
        return self.speedup_of(self.best)

    def speedup_of(self, k: int) -> float:
        """Predicted, of a target that is bound by its weights, with k drafted tokens."""
        return speedup(min(self.agreement, MOST), k, self.share)

    @property
    def named(self) -> str:
        """As the drafter's option has it."""
        return ".".join(map(str, sorted(self.layers)))


class Trial:
    """Tries sets of layers on one text."""

    def __init__(self, model: LoadedModel, tokens: list[int]) -> None:
        self._model, T = model, len(tokens)
        self._kv = model.allocate_kv(2 * T)
        work = Rows(tokens=tokens, start=0, slots=np.arange(T), logit_tokens=T)
        self._wanted = Runner(model, self._kv).forward(pack([work])).logits.argmax(-1)  # [T]
        # Each token is run again as if it were the last: alone behind the full pass's states.
        numbers = np.arange(T)
        segments = tuple(Segment(row, numbers[:row], (-1,)) for row in range(T))
        self._batch = Batch(np.array(tokens), numbers, numbers + T, segments, numbers)

    def found(self, layers: frozenset[int]) -> Found:
        """What a set of layers agrees in and costs."""
        model = self._model.keeping(layers)
        said: Tensor = Runner(model, self._kv).forward(self._batch).logits.argmax(-1)
        agreement = float((said == self._wanted).float().mean())
        return Found(layers, agreement, cost_share(self._model, layers))


def cost_share(model: LoadedModel, layers: frozenset[int]) -> float:
    """Bytes of the kept layers and the head, of those of all layers and the head."""
    sizes = {name: weight.nbytes for name, weight in model.weights.items()}
    by_layer = [
        sum(size for name, size in sizes.items() if name.endswith(f".{layer}"))
        for layer in range(model.spec.num_layers)
    ]
    head = sizes["embed" if model.spec.tie_embeddings else "head"]
    return (sum(by_layer[layer] for layer in layers) + head) / (sum(by_layer) + head)


def search(model: LoadedModel, data: Path, tokens: int, report: Report) -> Found:
    """The layers of the best predicted speedup on the first tokens of a text.

    Raises:
        ConfigError: there is too little text, or one layer alone.
    """
    count = model.spec.num_layers
    if count < 2:
        raise ConfigError(f"{model.name} has one layer; there is none to skip.")
    length = min(tokens, model.spec.max_model_len)
    trial = Trial(model, read_corpus(data, model, length // 2).train.flatten()[:length].tolist())
    kept, ways, tried = frozenset(range(count)), list[Found](), 0
    while len(kept) > 1:
        options = []
        for layer in sorted(kept):
            options.append(trial.found(kept - {layer}))
            report(tried := tried + 1, count * (count + 1) // 2 - 1)
        ways.append(max(options, key=lambda found: found.agreement))
        kept = ways[-1].layers
    return max(ways, key=lambda found: (found.speedup, found.speedup_of(USUAL)))


@torch.no_grad()
def write(out: Path, model: LoadedModel, found: Found, data: Path) -> None:
    """Write what the drafter loads."""
    config = {
        "kind": KIND,
        "layers": sorted(found.layers),
        "target": describe_target(model),
        "provenance": {
            "data": data.name,
            "agreement": round(found.agreement, 4),
            "cost_share": round(found.share, 4),
            "predicted_speedup": round(found.speedup, 3),
        },
    }
    save_head(out, config, {})
