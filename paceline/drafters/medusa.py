"""Medusa: heads on the target's last hidden state guess several tokens ahead (arXiv 2401.10774).

Head i guesses the token i places behind the next one. Their best guesses form a sparse tree of
point masses, whose shape follows from how often each rank of each head was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.checkpoint import Checkpoint, open_head, read_draft_ids
from paceline.drafters.features import states
from paceline.drafters.host import Host
from paceline.drafters.parts import TargetParts, dense, laid_out, linear
from paceline.errors import ConfigError
from paceline.kernels import rows
from paceline.kernels.ops import Matrix
from paceline.models import LoadedModel
from paceline.plan.trees import BestTree, best_tree, by_rank
from paceline.tree import NO_DRAFT, Draft, DraftBuilder

KIND = "medusa"
MAX_HEADS, MAX_NODES = 64, 256


@register(KIND)
@dataclass(frozen=True)
class Medusa:
    """Options of Medusa heads.

    Raises:
        ConfigError: a value is out of its range.
    """

    head: str = ""
    """The folder that `paceline train medusa` wrote; empty: the one that ships with the model."""
    k: int = 8
    """Nodes of a draft."""
    depth: int | None = None
    """Longest path; None: as deep as there are heads."""
    tree: bool = True
    """Propose trees; else chains."""
    force: bool = False
    """Use a head that was made for other weights of the same sizes."""

    @property
    def needs(self) -> Needs:
        """A rule that verifies trees, if it may propose them."""
        return Needs(trees=self.tree)

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.k < 1 or (self.depth is not None and self.depth < 1):
            raise ConfigError(
                f"Drafter 'medusa' wants k >= 1 and depth >= 1, not k={self.k}, depth={self.depth}."
            )

    def build(self, host: Host) -> LiveDrafter:
        """Load the heads; raises as `open_head` does, or ConfigError for a tree that is deeper."""
        found = open_head(KIND, self.head, host.target, force=self.force)
        heads = MedusaHeads.load(found, host.target)
        depth = self.depth or len(heads.accuracies)
        if depth > len(heads.accuracies):
            raise ConfigError(
                f"Drafter 'medusa' has {len(heads.accuracies)} heads and its tree cannot be {depth}"
                " deep; lower depth."
            )
        accuracies = heads.accuracies[:depth]
        if not self.tree:
            accuracies = [ranks[:1] for ranks in accuracies]
        tree = best_tree(by_rank(accuracies), MAX_NODES)
        return LiveMedusa(heads, tree, host.target.spec.num_layers - 1)


@dataclass(frozen=True, eq=False)
class MedusaHeads:
    """Blocks x + silu(W x + b), each before the target's head or one of its own."""

    parts: TargetParts
    matrices: dict[str, Matrix]
    """Laid out as the target's are."""
    biases: dict[str, Tensor]
    own_heads: bool
    draft_ids: Tensor | None
    """draft_ids[V']: the target's id of each that is guessed; None: all are."""
    accuracies: list[list[float]]
    """accuracies[head][rank]: P(its guess of that rank is right | those before it were)."""

    @classmethod
    def load(cls, found: Checkpoint, target: LoadedModel) -> MedusaHeads:
        """Read and check a checkpoint; raises ModelFileError."""
        config, spec = found.config, target.spec
        accuracies = config.shares("accuracies")
        if not 1 <= len(accuracies) <= MAX_HEADS:
            raise config.fault("accuracies", f"tells of {len(accuracies)} heads")
        own, ids = not config.flag("shared_head"), read_draft_ids(config, spec.vocab_size)
        E, V = spec.hidden_size, spec.vocab_size if ids is None else len(ids)
        if max(map(len, accuracies)) > V:
            raise config.fault("accuracies", f"rank more than the {V} ids that are guessed")
        shapes: dict[str, tuple[int, ...]] = {}
        for i in range(len(accuracies)):
            shapes |= {f"block.{i}": (E, E), f"block_bias.{i}": (E,)}
            shapes |= {f"head.{i}": (V, E)} if own else {}
        parts, tensors = TargetParts.of(target), found.tensors(shapes)
        like = parts.head.weight
        matrices = {n: laid_out(t, like) for n, t in tensors.items() if t.dim() == 2}
        if not own:
            matrices["head"] = like if ids is None else laid_out(dense(like, ids), like)
        biases = {n: t.to(like.device) for n, t in tensors.items() if t.dim() == 1}
        return cls(parts, matrices, biases, own, ids, accuracies)

    def logits(self, normed: Tensor, count: int) -> list[Tensor]:
        """normed[N, E] -> what each of the first `count` heads says of the guessed ids, [N, V'].

        The target's head is read once for all of them.
        """
        read = [self._block(normed, index) for index in range(count)]
        if self.own_heads:
            return [linear(x, self.matrices[f"head.{i}"]) for i, x in enumerate(read)]
        said = linear(torch.cat(read), self.matrices["head"])
        return list(said.view(count, len(normed), -1))

    def _block(self, normed: Tensor, index: int) -> Tensor:
        bias = self.biases[f"block_bias.{index}"]
        return normed + rows.silu(linear(normed, self.matrices[f"block.{index}"], bias))


class LiveMedusa:
    """Keeps the last state of each request and guesses from it."""

    def __init__(self, heads: MedusaHeads, tree: BestTree, layer: int) -> None:
        self._heads, self._tree, self.hidden_layers = heads, tree, (layer,)
        self._states: dict[str, Tensor] = {}

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """The best nodes of the tree that the budget holds."""
        known = [i for i, ctx in enumerate(contexts) if ctx.request_id in self._states]
        drafts = [NO_DRAFT] * len(contexts)
        if known:
            states = torch.stack([self._states[contexts[i].request_id] for i in known])
            guesses = self._guess(states, max(budgets[i] for i in known))
            for place, i in enumerate(known):
                drafts[i] = self._grow([ids[place] for ids in guesses], budgets[i])
        return drafts

    def observe(self, observations: Sequence[Observation]) -> None:
        """Keep the state before the last committed token."""
        for seen in observations:
            if seen.committed:
                last = states(seen, *self.hidden_layers)[-1]
                self._states[seen.context.request_id] = last.clone()

    def release(self, request_id: str) -> None:
        """Forget the request."""
        self._states.pop(request_id, None)

    def _guess(self, states: Tensor, nodes: int) -> list[list[list[int]]]:
        """guesses[head][row]: the ids that so many nodes may want, the likeliest first."""
        wanted: list[int] = []
        depths = [0]
        for parent, rank in zip(self._tree.parents[:nodes], self._tree.ranks, strict=False):
            depths.append(depths[parent] + 1)
            wanted += [0] * (depths[-1] - len(wanted))
            wanted[depths[-1] - 1] = max(wanted[depths[-1] - 1], rank + 1)
        said = self._heads.logits(self._heads.parts.normed(states), len(wanted))
        best = [
            logits.topk(count).indices.cpu() for logits, count in zip(said, wanted, strict=True)
        ]
        ids = self._heads.draft_ids
        return [(places if ids is None else ids[places]).tolist() for places in best]

    def _grow(self, guesses: list[list[int]], nodes: int) -> Draft:
        builder, depths = DraftBuilder(), [0]
        for parent, rank in zip(self._tree.parents[:nodes], self._tree.ranks, strict=False):
            builder.point(parent, guesses[depths[parent]][rank])
            depths.append(depths[parent] + 1)
        return builder.build()
