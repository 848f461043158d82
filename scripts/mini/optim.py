"""Muon for the matrices inside the layers, AdamW for the embedding and the gains.

A budget of a couple of million tokens is far too small for AdamW alone to get far: Muon's
orthogonal steps buy about the same loss with markedly fewer tokens.
"""

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from paceline.train.optim import Muon

from .recipe import Schedule


def optimizers(model: torch.nn.Module, schedule: Schedule) -> list[Optimizer]:
    """Both optimizers; the schedule scales the peak rate each was given."""
    inner = [weight for name, weight in model.named_parameters() if _is_inner(name, weight)]
    outer = [weight for name, weight in model.named_parameters() if not _is_inner(name, weight)]
    return [
        Muon(inner, schedule.inner_lr, schedule.weight_decay),
        AdamW(outer, schedule.outer_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _is_inner(name: str, weight: Tensor) -> bool:
    return weight.dim() == 2 and ".layers." in name
