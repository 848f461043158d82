"""The training loop: what a step sees follows from its number, so a killed run goes on the same."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.files import write_whole
from paceline.train.capture import Captured
from paceline.train.optim import Optimizers

CHECKPOINT, CURVES = "checkpoint.pt", "curves.jsonl"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How long and how fast to train.

    Raises:
        ConfigError: a number is not positive.
    """

    steps: int
    rows_per_step: int = 4
    rate: float = 2e-3
    """AdamW's, at its peak; Muon's is a multiple of it."""
    decay: float = 0.01
    warmup: int = 20
    final_share: float = 0.05
    """Of the rate, at the end of the cosine."""
    seed: int = 0
    check_every: int = 25
    bfloat16: bool = False
    """Multiply in bfloat16, where a CPU has it in a fraction of the time; weights stay float32."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("steps", "rows_per_step", "rate", "check_every"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}.")

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine."""
        share = min(1.0, (step + 1) / max(1, self.warmup))
        fall = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.rate * share * (self.final_share + (1 - self.final_share) * fall)

    def picked(self, step: int, rows: int) -> list[int]:
        """The rows of a step: epochs of one permutation each."""
        first = step * self.rows_per_step
        found = []
        for index in range(first, first + self.rows_per_step):
            epoch, place = divmod(index, rows)
            order = np.random.default_rng([self.seed, epoch]).permutation(rows)
            found.append(int(order[place]))
        return found


@dataclass(frozen=True)
class Held:
    """How a head does on held-out text."""

    loss: float
    acceptance: Sequence[float]
    """acceptance[j]: P(the guess j ahead is right | those before it were), of a chain."""
    tokens_per_pass: float
    """Predicted, of the drafts that are served."""


class Objective(Protocol):
    """A head in training."""

    @property
    def module(self) -> torch.nn.Module:
        """What is trained."""

    def loss(self, ids: Tensor, states: dict[int, Tensor], generator: torch.Generator) -> Tensor:
        """The loss on ids[B, T] and states[B, T, E] by layer; noise comes from the generator."""

    def held_out(self, captured: Captured) -> Held:
        """Measure on held-out rows."""


@dataclass
class Progress:
    """What a run has behind it."""

    step: int = 0
    seconds: float = 0.0
    curves: list[dict[str, Any]] = field(default_factory=list)


Tell = Callable[[Progress, float], None]
"""Called after each step, with its loss."""


def train(
    objective: Objective,
    data: tuple[Captured, Captured],
    recipe: Recipe,
    out: Path,
    tell: Tell,
    leg_s: float | None = None,
) -> Progress:
    """Train from the checkpoint in `out`, if there is one, to the end or for so many seconds.

    On the same machine and number of threads the weights are those of an unbroken run, to the bit.

    Raises:
        ConfigError: the checkpoint is of another recipe or head.
        OSError: the disk is full; the last checkpoint is still whole.
    """
    captured, held_out = data
    optimizer = Optimizers(objective.module, recipe.decay)
    done = resume(objective, optimizer, recipe, out)
    began = last = time.monotonic()
    while done.step < recipe.steps:
        loss = one_step(objective, captured, optimizer, recipe, done.step)
        done.step += 1
        now = time.monotonic()
        done.seconds, last = done.seconds + now - last, now
        over = leg_s is not None and now - began > leg_s
        if done.step % recipe.check_every == 0 or done.step == recipe.steps:
            with torch.no_grad():
                held = objective.held_out(held_out)
            done.curves.append({"step": done.step, "train_loss": loss, **asdict(held)})
            save(objective, optimizer, recipe, done, out)
        elif over:
            save(objective, optimizer, recipe, done, out)
        tell(done, loss)
        if over:
            break
    return done


def one_step(
    objective: Objective,
    captured: Captured,
    optimizer: Optimizers,
    recipe: Recipe,
    step: int,
) -> float:
    """Train on the rows of one step; return the loss."""
    picked = recipe.picked(step, len(captured.ids))
    generator = torch.Generator().manual_seed(recipe.seed << 32 | step)
    with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bfloat16):
        loss = objective.loss(captured.ids[picked], captured.states(picked), generator)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(objective.module.parameters(), 1.0)
        optimizer.step(recipe.rate_at(step))
    return float(loss.detach())


def resume(objective: Objective, optimizer: Optimizers, recipe: Recipe, out: Path) -> Progress:
    """Take over what a checkpoint holds; raises ConfigError where it does not fit."""
    path = out / CHECKPOINT
    if not path.exists():
        return Progress()
    try:
        saved = torch.load(path, weights_only=True)
        if saved["recipe"] != asdict(recipe):
            raise ConfigError(
                f"{path} was trained by another recipe, {saved['recipe']}; give the same options,"
                " or another --out."
            )
        objective.module.load_state_dict(saved["module"])
        optimizer.load(saved["optimizer"])
        return Progress(**saved["progress"])
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{path} cannot be resumed: {error}; remove it to start anew.") from error


def save(
    objective: Objective,
    optimizer: Optimizers,
    recipe: Recipe,
    done: Progress,
    out: Path,
) -> None:
    """Write the checkpoint and the curves; each file is whole, old or new."""
    out.mkdir(parents=True, exist_ok=True)
    fresh = out / f"{CHECKPOINT}.part"
    state = {
        "module": objective.module.state_dict(),
        "optimizer": optimizer.state(),
        "recipe": asdict(recipe),
        "progress": asdict(done),
    }
    try:
        torch.save(state, fresh)
    except RuntimeError as error:  # what torch makes of a full disk
        fresh.unlink(missing_ok=True)
        raise OSError(f"The checkpoint {fresh} cannot be written: {error}.") from error
    os.replace(fresh, out / CHECKPOINT)
    lines = "".join(json.dumps(entry) + "\n" for entry in done.curves)
    write_whole(out / CURVES, lines.encode())
