"""EAGLE and EAGLE-3: one decoder layer on the target's own features drafts (arXiv 2401.15077,
2503.01840), as a chain that samples or as a tree that grows where it is sure (2406.16858).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from paceline.cache import Slots
from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.checkpoint import Checkpoint, open_head, read_draft_ids
from paceline.drafters.confidence import Calibration, Recalibration
from paceline.drafters.eagle_growth import Chain, Growth, Guess, Tree
from paceline.drafters.eagle_layer import EagleLayer, EagleShape
from paceline.drafters.feature_cache import FeatureCache, Known, Piece
from paceline.drafters.features import states
from paceline.drafters.host import Host
from paceline.drafters.parts import TargetParts, linear
from paceline.errors import ConfigError
from paceline.kernels.batch import Batch, KVTensors, PassOutput, Segment
from paceline.models import LoadedModel
from paceline.models.load import executor
from paceline.models.packing import QUANTIZE
from paceline.tree import NO_DRAFT, Draft

KIND = "eagle"
Grow = Callable[[DraftContext, int, Recalibration], Growth]

IDLE_ROWS = 512
"""Rows of a request that does not draft which may wait."""
UNREAD_PASSES = 16
"""Passes without drafts, or prompts, whose states may wait to be looked at: many take no longer
than one, whose data and code have left the caches."""


@register(KIND)
@dataclass(frozen=True)
class Eagle:
    """Options of an EAGLE or EAGLE-3 layer.

    Raises:
        ConfigError: a value is out of its range.
    """

    head: str = ""
    """The folder that `paceline train eagle` or `eagle3` wrote; empty: the one that ships with the
    model."""
    k: int = 8
    """Nodes of a draft."""
    tree: bool = True
    """Grow trees of point masses; else sample chains."""
    width: int = 2
    """Most children of a node, and most nodes of a depth that go on."""
    depth: int = 16
    """Longest path of a tree."""
    min_prob: float = 0.002
    """Least estimated probability of a node's whole path; for a tree."""
    quantize: str = ""
    """int8 or int4: run the layer and the rows of the head it reads so; empty: as it is stored."""
    force: bool = False
    """Use a head that was made for other weights of the same sizes."""

    @property
    def needs(self) -> Needs:
        """A rule that verifies trees, if it may propose them."""
        return Needs(trees=self.tree)

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.quantize not in ("", *QUANTIZE):
            raise ConfigError(
                f"Option quantize of drafter 'eagle' is {' or '.join(QUANTIZE)}, not"
                f" '{self.quantize}'."
            )
        if min(self.k, self.width, self.depth) < 1 or not 0 <= self.min_prob <= 1:
            raise ConfigError(
                f"Drafter 'eagle' wants k, width and depth >= 1 and min_prob in [0, 1], not"
                f" {self.k}, {self.width}, {self.depth}, {self.min_prob}."
            )

    def build(self, host: Host) -> LiveDrafter:
        """Load the layer; raises as `open_head` does."""
        found = open_head(KIND, self.head, host.target, force=self.force)
        if self.quantize and not host.target.native:
            raise ConfigError("Option quantize of drafter 'eagle' needs the native kernels.")
        layer = load_layer(found, host.target, self.quantize or None)
        greedy = Calibration.read(found.config, "calibration")
        sampled = Calibration.read(found.config, "calibration_sampled")

        def grow(ctx: DraftContext, budget: int, own: Recalibration) -> Growth:
            if not self.tree:
                return Chain(ctx, budget)
            calibration = sampled if ctx.params.temperature else greedy
            return Tree(ctx, budget, self.width, self.depth, self.min_prob, calibration, own)

        return LiveEagle(LayerRunner(layer, host), FeatureCache(host.pool), grow)


def load_layer(found: Checkpoint, target: LoadedModel, quantize: str | None = None) -> EagleLayer:
    """The layer of a checkpoint; raises ModelFileError where it does not fit the target."""
    config, spec = found.config, target.spec
    shape = EagleShape.read(config)
    if shape.hidden_size != spec.hidden_size or max(shape.layers) >= spec.num_layers:
        raise config.fault("hidden_size", f"does not fit the target's {spec.hidden_size}")
    ids = read_draft_ids(config, spec.vocab_size)
    if (spec.vocab_size if ids is None else len(ids)) != shape.vocab_size:
        raise config.fault("draft_ids", f"are not {shape.vocab_size} ids")
    tensors = found.tensors(shape.tensor_shapes())
    stored = "int8" if found.is_int8 else None
    return EagleLayer(shape, tensors, TargetParts.of(target), ids, quantize or stored)


class LayerRunner:
    """The layer and its keys and values."""

    def __init__(self, layer: EagleLayer, host: Host) -> None:
        self.layer, self.max_rows = layer, host.max_rows
        shape, target = layer.shape, host.target
        self._execute = executor(layer.program, target.native)
        self._write = executor(layer.filling, target.native)
        sizes = (1, host.num_slots, shape.num_kv_heads, shape.head_size)
        self._kv = KVTensors.zeros(sizes, target.dtype, target.device)
        self._fuse = layer.matrix("fuse") if shape.fuses else None
        self._vocab_size = target.spec.vocab_size

    def states(self, seen: Observation) -> Tensor:
        """states[n, S] that the features of the request's tokens in a pass are made of."""
        found = [states(seen, layer) for layer in self.layer.shape.layers]
        return torch.cat(found, dim=1) if len(found) > 1 else found[0]

    def features(self, states: Tensor) -> Tensor:
        """features[n, E] of states[n, S]."""
        if self._fuse is None:
            return self.layer.parts.normed(states)
        return linear(states, self._fuse)

    def run(self, pieces: Sequence[Piece]) -> PassOutput:
        """logits[B, draft vocabulary] after each piece's last row, and all rows' outputs."""
        contexts = [piece.context for piece in pieces]
        return self._execute(as_batch(pieces, contexts, (0,)), self._kv)

    def fill(self, pieces: Sequence[Piece]) -> None:
        """Write the rows' keys and values alone."""
        self._write(as_batch(pieces, [piece.context[:0] for piece in pieces], ()), self._kv)

    def guess(self, logits: Tensor) -> Guess:
        """What logits[draft vocabulary] say of the next token."""
        return Guess(logits, self.layer.draft_ids, self._vocab_size)


def as_batch(
    pieces: Sequence[Piece], contexts: Sequence[Slots], hidden_layers: tuple[int, ...]
) -> Batch:
    """The pieces' rows as a pass of the layer, each piece behind its context."""
    counts = [len(piece.tokens) for piece in pieces]
    starts = np.cumsum([0, *counts])
    return Batch(
        np.concatenate([np.asarray(piece.tokens, dtype=np.int64) for piece in pieces]),
        np.concatenate(
            [piece.start + np.arange(n) for piece, n in zip(pieces, counts, strict=True)]
        ),
        np.concatenate([piece.slots for piece in pieces]),
        tuple(
            Segment(int(start), context, tuple(range(-1, count - 1)))
            for start, context, count in zip(starts, contexts, counts, strict=False)
        ),
        starts[1:] - 1,
        hidden_layers,
        torch.cat([piece.features for piece in pieces]),
    )


class LiveEagle:
    """Fills the layer's rows from true features after each pass, then grows drafts from them."""

    def __init__(self, runner: LayerRunner, cache: FeatureCache, grow: Grow) -> None:
        self._runner, self._cache, self._grow = runner, cache, grow
        self._own: dict[str, Recalibration] = {}
        self._grown: dict[str, Growth] = {}
        self._unread: list[Sequence[Observation]] = []
        self.hidden_layers = runner.layer.shape.layers

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Trees or chains of at most the budget; none where no state was observed yet."""
        self._read()
        known = [self._cache.requests.get(ctx.request_id) for ctx in contexts]
        growths = {
            i: self._grow(contexts[i], budgets[i], self._own_of(contexts[i]))
            for i, state in enumerate(known)
            if state is not None and state.ready == len(contexts[i].tokens)
        }
        if growths:
            self._fill([(contexts[i], known[i], 1) for i in growths])  # type: ignore[misc]
            self._extend({i: (growths[i], known[i]) for i in growths})  # type: ignore[misc]
        self._grown |= {g.ctx.request_id: g for g in growths.values()}
        return [growths[i].draft() if i in growths else NO_DRAFT for i in range(len(contexts))]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Take in the true states, soon where rows may have to be filled."""
        self._unread.append(observations)
        new = any(seen.finished or not seen.committed for seen in observations)
        if new or len(self._unread) == UNREAD_PASSES:
            self._read()

    def release(self, request_id: str) -> None:
        """Forget the request; its marked blocks stay good for the prefix cache."""
        self._read()
        for known in (self._cache.requests, self._own, self._grown):
            known.pop(request_id, None)

    def _read(self) -> None:
        """Keep the states of the last passes; fill the rows of prompts, and of requests long idle.

        What a request leaves for the prefix cache is filled at its end, if it ever drafted.
        """
        work = []
        for seen in chain.from_iterable(self._unread):
            if grown := self._grown.pop(seen.context.request_id, None):
                grown.learn(seen.committed)
            known = self._cache.add(seen.context, seen.start, self._runner.states(seen))
            waits = seen.committed and known.ready - known.filled <= IDLE_ROWS
            drafted = seen.context.request_id in self._own
            if not waits or (seen.finished and drafted):
                work.append((seen.context, known, 1))
        self._unread.clear()
        self._fill(work)

    def _own_of(self, ctx: DraftContext) -> Recalibration:
        return self._own.setdefault(ctx.request_id, Recalibration())

    def _fill(self, work: Sequence[tuple[DraftContext, Known, int]]) -> None:
        """Write all rows whose feature is known but the last `kept` of each request."""
        left = self._runner.max_rows
        pieces: list[Piece] = []
        for ctx, known, kept in work:
            while (count := min(known.ready - known.filled - kept, left)) > 0:
                pieces.append(self._piece(ctx, known, count))
                left -= count
                if not left:
                    self._runner.fill(pieces)
                    pieces, left = [], self._runner.max_rows
        if pieces:
            self._runner.fill(pieces)
        for ctx, known, _ in work:
            self._cache.mark(ctx, known)

    def _piece(self, ctx: DraftContext, known: Known, count: int) -> Piece:
        start, context = known.filled, self._cache.context(ctx, known)
        features = self._runner.features(self._cache.take(known, count))
        slots = ctx.table.slots(start, start + count)
        return Piece(ctx.tokens[start : start + count], start, slots, context, features)

    def _extend(self, growths: dict[int, tuple[Growth, Known]]) -> None:
        """Run the last true row of each request, then its growing draft depth by depth."""
        pieces = [self._piece(g.ctx, known, 1) for g, known in growths.values()]
        owners: list[tuple[Growth, int]] = [(g, 0) for g, _ in growths.values()]
        while pieces:
            out = self._runner.run(pieces)
            logits, outputs = out.logits.clone(), out.hidden[0]
            for place, (growth, row) in enumerate(owners):
                growth.take(row, self._runner.guess(logits[place]), outputs[place].clone())
            owners = [(g, row) for g, _ in growths.values() for row in g.next_rows()]
            known = {id(g): k for g, k in growths.values()}
            pieces = [self._node(g, row, known[id(g)]) for g, row in owners]

    def _node(self, growth: Growth, row: int, known: Known) -> Piece:
        """A drafted node's row, behind the written ones and its ancestors'."""
        ctx, above = growth.ctx, growth.ancestors(row)
        base = len(ctx.tokens)
        slots = ctx.table.slots(base, base + growth.budget)
        own = slots[[growth.place(r) for r in (*above, row)]]
        context = np.concatenate([self._cache.context(ctx, known), own[:-1]])
        start = base + len(above)
        return Piece([growth.token(row)], start, own[-1:], context, growth.feature(row))
