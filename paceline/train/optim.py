"""Muon for the matrices inside a head, AdamW for the rest.

Runs here are short, and Muon's orthogonal steps (Jordan et al. 2024) get to the same loss in a
fraction of the tokens that AdamW alone needs. In float32: a CPU without bfloat16 emulates it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NEWTON_STEPS = 4
MUON_RATE = 10.0
"""Muon's rate over AdamW's."""


class Muon(Optimizer):
    """Momentum whose every update is brought near the closest orthogonal matrix."""

    def __init__(self, params: Iterable[Tensor], lr: float, decay: float, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "decay": decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Apply one update to every matrix."""
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                trail = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonal(weight.grad.lerp(trail, group["momentum"]))
                rows, columns = weight.shape
                weight.mul_(1 - group["lr"] * group["decay"])
                weight.add_(update, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """A few Newton-Schulz steps: singular values near one, singular vectors kept."""
    a, b, c = COEFFICIENTS
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(NEWTON_STEPS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, b * gram + c * gram @ gram, wide, beta=a)
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide


class Optimizers:
    """Both, as one; a head over the vocabulary counts to the rest."""

    def __init__(self, module: torch.nn.Module, decay: float) -> None:
        named = list(module.named_parameters())
        inner = [p for n, p in named if p.dim() == 2 and not n.endswith("head")]
        outer = [p for n, p in named if p.dim() != 2 or n.endswith("head")]
        self._both = (
            Muon(inner, 1.0, decay),
            AdamW(outer, 1.0, betas=(0.9, 0.95), weight_decay=0.0),
        )

    def step(self, rate: float) -> None:
        """Update every parameter at AdamW's rate, Muon's in proportion; gradients are spent."""
        for optimizer, share in zip(self._both, (MUON_RATE, 1.0), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, Any]]:
        """What a checkpoint keeps."""
        return [optimizer.state_dict() for optimizer in self._both]

    def load(self, state: list[dict[str, Any]]) -> None:
        """Take over a checkpoint's."""
        for optimizer, own in zip(self._both, state, strict=True):
            optimizer.load_state_dict(own)
