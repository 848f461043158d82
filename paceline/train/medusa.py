"""Medusa-1: heads learn several tokens ahead from a frozen target's last state (2401.10774)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from paceline.drafters.medusa import KIND
from paceline.drafters.parts import TargetParts, dense
from paceline.models import LoadedModel
from paceline.plan.trees import best_tree, by_rank
from paceline.train.capture import Captured
from paceline.train.loop import Held

RANKS = 10
"""Guesses of a head whose accuracy is measured."""
NODES = 8
"""Of the tree whose tokens per pass are predicted: what is served by default."""
FADE = 0.8
"""Weight of a head's loss, relative to the one before it."""
PLACES = 96
"""Positions of a row that a step trains on."""
CHUNK_ROWS = 4
NONE = -1
"""Place of an id that is not guessed."""


class Blocks(torch.nn.Module):
    """x + silu(W x + b) a head; all zero at first, so that each begins as the target's own head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(heads))
        for parameter in self.parameters():
            torch.nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Iterator[Tensor]:
        """x[N, E] -> what each head hands to the target's head, [N, E]."""
        for block in self.blocks:
            yield x + functional.silu(block(x))


class MedusaObjective:
    """Heads of one target in training; the target's own head reads them, frozen.

    With draft_ids[V'] they learn to guess these alone, and say nothing of where others stand.
    """

    def __init__(self, target: LoadedModel, heads: int, draft_ids: Tensor | None = None) -> None:
        self.module = Blocks(target.spec.hidden_size, heads)
        self.heads, self._ids = heads, draft_ids
        self._place = torch.arange(target.spec.vocab_size)  # of each id among the guessed ones
        if draft_ids is not None:
            self._place.fill_(NONE)
            self._place[draft_ids] = torch.arange(len(draft_ids))
        self.captured_layers: tuple[int, ...] = (target.spec.num_layers - 1,)
        self._parts = TargetParts.of(target)
        self._head = dense(self._parts.head.weight, draft_ids)  # [V', E]

    def loss(self, ids: Tensor, states: dict[int, Tensor], generator: torch.Generator) -> Tensor:
        """Sum of each head's cross-entropy at some places of ids[B, T]."""
        places = torch.randperm(ids.shape[1] - self.heads - 1, generator=generator)[:PLACES]
        (hidden,) = states.values()
        normed = self._parts.normed(hidden[:, places].flatten(0, 1))  # [B * places, E]
        total = torch.zeros(())
        for head, x in enumerate(self.module(normed)):
            wanted = self._place[ids[:, places + 2 + head].flatten()]
            total = total + FADE**head * loss_of(functional.linear(x, self._head), wanted)
        return total

    def held_out(self, captured: Captured) -> Held:
        """Loss, acceptance of the chain of first guesses, and of the best tree."""
        ranks, loss = self._ranks(captured)
        accuracies = conditional(ranks, min(RANKS, len(self._head)))
        tree = best_tree(by_rank(accuracies), NODES)
        first = conditional(ranks, count=1)
        return Held(loss, [own[0] for own in first], tree.expected_tokens)

    def export(self, captured: Captured) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What config.json says beyond the target, and the tensors."""
        accuracies = conditional(self._ranks(captured)[0], min(RANKS, len(self._head)))
        config: dict[str, Any] = {
            "kind": KIND,
            "shared_head": True,
            "accuracies": [[round(a, 5) for a in own] for own in accuracies],
        }
        if self._ids is not None:
            config["draft_ids"] = self._ids.tolist()
        tensors: dict[str, Tensor] = {}
        for i, block in enumerate(self.module.blocks):
            assert isinstance(block, torch.nn.Linear)
            tensors |= {f"block.{i}": block.weight, f"block_bias.{i}": block.bias}
        return config, {name: tensor.detach().bfloat16() for name, tensor in tensors.items()}

    @torch.no_grad()
    def _ranks(self, captured: Captured) -> tuple[Tensor, float]:
        """ranks[heads, places]: of the true token among a head's guesses, and the mean loss."""
        found, losses = [], []
        for start in range(0, len(captured.ids), CHUNK_ROWS):
            rows = range(start, min(start + CHUNK_ROWS, len(captured.ids)))
            (hidden,) = captured.states(rows).values()
            ids, count = captured.ids[list(rows)], captured.ids.shape[1] - self.heads - 1
            normed = self._parts.normed(hidden[:, :count].flatten(0, 1))
            own = []
            for head, x in enumerate(self.module(normed)):
                logits = functional.linear(x, self._head)
                wanted = self._place[ids[:, 2 + head : 2 + head + count].flatten()]
                losses.append(loss_of(logits, wanted))
                better = logits > logits.gather(1, wanted.clamp(min=0)[:, None])
                own.append(better.sum(1).masked_fill(wanted == NONE, logits.shape[1]))
            found.append(torch.stack(own))
        return torch.cat(found, dim=1), float(torch.stack(losses).mean())


def loss_of(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean cross-entropy of logits[N, V'] over places whose token can be guessed; 0 for none."""
    total = functional.cross_entropy(logits, wanted, ignore_index=NONE, reduction="sum")
    return total / (wanted != NONE).sum().clamp(min=1)


def conditional(ranks: Tensor, count: int = RANKS) -> list[list[float]]:
    """accuracies[head][rank]: how often the true token had that rank of ranks[heads, N], where at
    the heads before it it was among the first `count`.
    """
    alive = torch.ones(ranks.shape[1], dtype=torch.bool)
    accuracies = []
    for own in ranks:
        reached = max(1, int(alive.sum()))
        counts = torch.bincount(own[alive & (own < count)], minlength=count)
        accuracies.append((counts / reached).tolist())
        alive &= own < count
    return accuracies
