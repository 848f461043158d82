"""EAGLE and EAGLE-3 in training: one layer learns the target's law behind its features.

EAGLE-3's training-time test: what the layer puts out is fed to it again as the next row's feature,
several steps deep, as it will be when it drafts. A row of step s sees the true rows up to s before
it and, of each step between, the one row on its own path.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from paceline.drafters.eagle import KIND
from paceline.drafters.eagle_layer import EagleShape
from paceline.drafters.parts import TargetParts, dense, linear
from paceline.models import LoadedModel
from paceline.models.spec import rope_frequencies
from paceline.plan.isotonic import isotonic
from paceline.train.capture import Captured
from paceline.train.loop import Held

DEPTHS = 4
"""Steps whose acceptance is measured."""
NOISE = 0.1
"""Half-width of the noise on EAGLE's true features."""
TOKEN_SHARE = 0.1
"""Weight of the cross-entropy beside EAGLE's loss on features."""
FADE = 0.8
"""Weight of a step's loss, relative to the one before it."""
RANKS, CALIBRATED = 3, 3
"""Guesses whose confidence is calibrated, and depths at which it is: the last one's holds below."""
LEAST = 100
"""Guesses of a depth that make a table."""
BIN_EDGES = (0, 0.3, 0.5, 0.65, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97, 0.985, 0.993, 1)
"""Shares of the guesses by rising confidence: bins are narrow where it is high, for deep paths
are made of such guesses."""
CHUNK_ROWS = 2

Pair = tuple[Tensor, Tensor]


class Layer(torch.nn.Module):
    """The layer of `drafters/eagle_layer.py`, differentiable, on whole rows."""

    def __init__(self, shape: EagleShape, seed: int, head: Tensor) -> None:
        super().__init__()
        self.shape = shape
        generator = torch.Generator().manual_seed(seed)
        self.weights = torch.nn.ParameterDict()
        for name, sizes in shape.tensor_shapes().items():
            start = torch.ones(sizes) if name.endswith("norm") else torch.zeros(sizes)
            if len(sizes) == 2:
                start = torch.randn(sizes, generator=generator) * sizes[1] ** -0.5
            self.weights[name] = torch.nn.Parameter(start)
        with torch.no_grad():
            for name in ("attention_out", "down"):
                self.weights[name] *= 0.1
            if shape.fuses:
                self.weights["head"].copy_(head)
                self.weights["fuse"][:, -shape.hidden_size :] += torch.eye(shape.hidden_size)
            else:
                self.weights["fuse"] *= 0.1
                self.weights["fuse"][:, shape.hidden_size :] += torch.eye(shape.hidden_size)

    def fused(self, states: Sequence[Tensor]) -> Tensor:
        """Features[B, T, E] of the target's states."""
        return functional.linear(torch.cat(list(states), dim=-1), self.weights["fuse"])

    def forward(self, embedded: Tensor, feature: Tensor, earlier: list[Pair]) -> Tensor:
        """One step on rows[B, T, E]; `earlier` has the steps' keys and values, and gets its own."""
        w, eps = self.weights, self.shape.norm_eps
        if self.shape.fuses:
            parts = (norm(embedded, w["embed_norm"], eps), norm(feature, w["feature_norm"], eps))
            read, x = torch.cat(parts, dim=-1), feature
        else:
            joined = torch.cat((embedded, feature), dim=-1)
            x = read = functional.linear(joined, w["fuse"], w["fuse_bias"])
        x = x + functional.linear(self._attend(read, earlier), w["attention_out"])
        normed = norm(x, w["mlp_norm"], eps)
        gated = functional.silu(functional.linear(normed, w["gate"]))
        return x + functional.linear(gated * functional.linear(normed, w["up"]), w["down"])

    def logits(self, out: Tensor, head: Tensor) -> Tensor:
        """What the drafted ids' head says of rows[B, T, E]."""
        if not self.shape.fuses:
            return functional.linear(out, head)
        normed = norm(out, self.weights["final_norm"], self.shape.norm_eps)
        return functional.linear(normed, self.weights["head"])

    def _attend(self, read: Tensor, earlier: list[Pair]) -> Tensor:
        """[B, T, H D]: step s sees rows of step 0 up to s back, then one of each step since."""
        shape, step, T = self.shape, len(earlier), read.shape[1]
        query, key, value = (self._heads(read, name) for name in ("query", "key", "value"))
        earlier.append((key, value))
        true_keys, true_values = earlier[0]
        hidden = torch.ones(T, T, dtype=torch.bool).tril(-step).logical_not()
        over_true = query @ true_keys.transpose(-1, -2)  # [B, H, T, T]
        scores = [over_true.masked_fill(hidden, -torch.inf)]
        since = [
            (keys.roll(step - s, 2), values.roll(step - s, 2))
            for s, (keys, values) in enumerate(earlier[1:], start=1)
        ]
        scores += [(query * keys).sum(-1, keepdim=True) for keys, _ in since]
        shares = (torch.cat(scores, dim=-1) * shape.head_size**-0.5).softmax(-1)
        out: Tensor = shares[..., :T] @ true_values
        for place, (_, values) in enumerate(since):
            out = out + shares[..., T + place, None] * values
        return out.transpose(1, 2).flatten(2)

    def _heads(self, read: Tensor, name: str) -> Tensor:
        """[B, H, T, D], turned by position where rope turns it; kv heads repeated."""
        shape = self.shape
        x = functional.linear(read, self.weights[name])
        x = x.view(*x.shape[:2], -1, shape.head_size).transpose(1, 2)
        if name != "value":
            frequencies = torch.tensor(rope_frequencies(shape.head_size, shape.rope_theta))
            # Row i of a text is position i + 1; rope sees differences alone.
            angles = torch.arange(x.shape[2])[:, None] * frequencies
            left, right = x.chunk(2, dim=-1)
            cos, sin = angles.cos(), angles.sin()
            x = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
        return x if name == "query" else x.repeat_interleave(shape.num_heads // x.shape[1], 1)


def norm(x: Tensor, scale: Tensor, eps: float) -> Tensor:
    """RMSNorm of x[..., E]."""
    return functional.rms_norm(x.float(), scale.shape, scale, eps)


class EagleObjective:
    """A layer for one target in training."""

    def __init__(
        self,
        target: LoadedModel,
        shape: EagleShape,
        draft_ids: Tensor | None,
        *,
        steps: int,
        seed: int,
    ) -> None:
        self.shape, self._ids, self._steps = shape, draft_ids, steps
        self._last = target.spec.num_layers - 1
        self.captured_layers = tuple(sorted({*shape.layers, self._last}))
        self._parts = TargetParts.of(target)
        self._vocab_size = target.spec.vocab_size
        self._head = dense(self._parts.head.weight, draft_ids)
        self.module = Layer(shape, seed, self._head)

    def loss(self, ids: Tensor, states: dict[int, Tensor], generator: torch.Generator) -> Tensor:
        """Cross-entropy with the target's law at each step, and EAGLE's loss on features."""
        normed = self._parts.normed(states[self._last])
        wanted = self._law(normed)  # [B, T, V]
        noise = None if self.shape.fuses else generator
        total, place = torch.zeros(()), 0
        for step, out in enumerate(self._steps_of(ids, states, self._steps, noise)):
            place = step
            logs = self.module.logits(out[:, step:], self._head).log_softmax(-1)
            loss = -(wanted[:, 1 + step :] * logs).sum(-1).mean()
            if not self.shape.fuses:
                near = functional.smooth_l1_loss(out[:, step:], normed[:, 1 + step :])
                loss = near + TOKEN_SHARE * loss
            total = total + FADE**place * loss
        return total

    def _law(self, normed: Tensor) -> Tensor:
        """The target's law[B, T, vocabulary] among the drafted ids; the others are not computed."""
        return functional.linear(normed, self._head).softmax(-1)

    def _steps_of(
        self, ids: Tensor, states: dict[int, Tensor], steps: int, noise: torch.Generator | None
    ) -> list[Tensor]:
        """out[B, T - 1, E] of each step; row i is token i + 1, and row i < step means nothing."""
        table, read = self._parts.embed, ids[:, 1:]
        embedded = dense(table.table, read.flatten()).view(*read.shape, -1) * table.scale
        picked = [states[layer] for layer in self.shape.layers]
        true = self.module.fused(picked) if self.shape.fuses else self._parts.normed(picked[0])
        feature = true[:, :-1]
        if noise is not None:
            spread = torch.rand(feature.shape, generator=noise) - 0.5
            feature = feature + 2 * NOISE * spread
        outs: list[Tensor] = []
        earlier: list[Pair] = []
        for _ in range(steps):
            out = self.module(embedded, feature, earlier)
            outs.append(out)
            feature = out.roll(1, dims=1)
        return outs

    def held_out(self, captured: Captured) -> Held:
        """Loss and acceptance of the chain of first guesses."""
        alive_counts, right_counts = np.zeros(DEPTHS), np.zeros(DEPTHS)
        losses = []
        for ids, outs, _ in self._chunks(captured, DEPTHS):
            alive = torch.ones_like(ids[:, 1:-DEPTHS], dtype=torch.bool)
            count = alive.shape[1]
            for step, out in enumerate(outs):
                logits = self.module.logits(out[:, step : step + count], self._head)
                wanted = ids[:, 2 + step : 2 + step + count]
                right = self._full_ids(logits.argmax(-1)) == wanted
                alive_counts[step] += int(alive.sum())
                alive &= right
                right_counts[step] += int(alive.sum())
                if step == 0:
                    losses.append(self._nats(logits, wanted))
        acceptance = (right_counts / np.maximum(alive_counts, 1)).tolist()
        return Held(float(np.mean(losses)), acceptance, 1 + float(np.cumprod(acceptance).sum()))

    def _nats(self, logits: Tensor, wanted: Tensor) -> float:
        """Mean cross-entropy where the token is one of the drafted ids."""
        if self._ids is None:
            return float(functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()))
        place = torch.full((self._vocab_size,), -100)
        place[self._ids] = torch.arange(len(self._ids))
        return float(functional.cross_entropy(logits.flatten(0, 1), place[wanted].flatten()))

    def _full_law(self, normed: Tensor) -> Tensor:
        """The target's law[B, T, V]."""
        rows = linear(normed.flatten(0, 1), self._parts.head.weight)
        return rows.softmax(-1).view(*normed.shape[:2], -1)

    def _full_ids(self, drafted: Tensor) -> Tensor:
        return drafted if self._ids is None else self._ids[drafted]

    def _chunks(self, captured: Captured, steps: int) -> Any:
        for start in range(0, len(captured.ids), CHUNK_ROWS):
            rows = list(range(start, min(start + CHUNK_ROWS, len(captured.ids))))
            ids = captured.ids[rows]
            states = captured.states(rows)
            yield ids, self._steps_of(ids, states, steps, None), states

    @torch.no_grad()
    def export(self, captured: Captured) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What config.json says beyond the target, and the tensors."""
        config = {"kind": KIND, **vars(self.shape), "layers": list(self.shape.layers)}
        if self._ids is not None:
            config["draft_ids"] = self._ids.tolist()
        config |= self._calibrations(captured)
        tensors = {name: weight.detach().bfloat16() for name, weight in self.module.weights.items()}
        return config, tensors

    def _calibrations(self, captured: Captured) -> dict[str, list[list[float]]]:
        """What a guess's confidence is worth at each depth, where the guesses before it were right:
        how often the target's argmax is the guess, and with what probability its law has it.
        """
        seen: list[list[Tensor]] = [[] for _ in range(CALIBRATED)]
        for ids, outs, states in self._chunks(captured, CALIBRATED):
            normed = self._parts.normed(states[self._last])[:, 1:]
            law = self._full_law(normed)  # [B, T - 1, V]
            alive = torch.ones_like(ids[:, 1:-CALIBRATED], dtype=torch.bool)
            for step, out in enumerate(outs):
                rows = slice(step, step + alive.shape[1])
                best = self.module.logits(out[:, rows], self._head).softmax(-1).topk(RANKS)
                guesses, own = self._full_ids(best.indices), law[:, rows]
                argmax = (guesses == own.argmax(-1, keepdim=True)).float()
                worth = torch.stack((best.values, argmax, own.gather(-1, guesses)))
                seen[step].append(worth[:, alive].flatten(1))  # [3, guesses]
                alive &= guesses[..., 0] == ids[:, 2 + step : 2 + step + alive.shape[1]]
        tables: dict[str, list[list[float]]] = {"calibration": [], "calibration_sampled": []}
        for depth, found in enumerate(seen):
            said, *worths = torch.cat(found, dim=1)
            if depth and len(said) < LEAST:
                break  # so weak a head hardly gets there: what holds above holds here
            for name, worth in zip(tables, worths, strict=True):
                tables[name] += rising(said.sort().values, worth[said.argsort()])
        return tables


def rising(confidences: Tensor, worth: Tensor) -> list[list[float]]:
    """The means of both[N] in bins, confidences rising; the second made to rise with the first."""
    edges = [int(share * len(worth)) for share in BIN_EDGES]
    said, found, counts = [], [], []
    for start, stop in pairwise(edges):
        if start < stop:
            said.append(round(float(confidences[start:stop].mean()), 5))
            found.append(float(worth[start:stop].mean()))
            counts.append(float(stop - start))
    return [said, [round(rate, 5) for rate in isotonic(found, counts)]]
