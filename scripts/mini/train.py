"""The training loop: warm-up then cosine, checkpoints that a kill cannot tear."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer
from transformers import LlamaConfig, LlamaForCausalLM

from .batches import held_out_rows, rows
from .optim import optimizers
from .recipe import CONTEXT, SEED, VOCAB, Schedule, Shape
from .tokenizer import Breaks, Ids

Model = Any
Logits = Callable[[Tensor], Tensor]
CHECK_EVERY = 50
LOOK_TOKENS = 16384


@dataclass
class Progressed:
    """What a run has behind it."""

    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


def build(shape: Shape) -> Model:
    """A fresh llama with tied embeddings."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


@torch.no_grad()
def borrow_embedding(model: Model, teacher: Model) -> None:
    """Start from the teacher's embedding, projected on its leading principal directions."""
    wide = teacher.model.embed_tokens.weight  # [V, E of the teacher]
    _, _, directions = torch.linalg.svd(wide, full_matrices=False)
    narrow = model.model.embed_tokens.weight  # [V, E]
    narrow.copy_(wide @ directions[: narrow.shape[1]].T)


def logits_of(model: Model) -> Logits:
    """The forward pass as a function: ids[B, T] -> logits[B, T, V]."""

    def forward(ids: Tensor) -> Tensor:
        logits: Tensor = model(input_ids=ids).logits
        return logits

    return forward


def rate(schedule: Schedule, step: int) -> float:
    """Share of the peak rate: linear warm-up, then cosine, then a linear cooldown."""
    if step < schedule.warmup:
        return (step + 1) / schedule.warmup
    cycle = schedule.cycle(step)
    share = (step - schedule.warmup) / (cycle.horizon - schedule.warmup)
    low = schedule.final_lr_share
    cosine = low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return cosine * min(1.0, (cycle.end - step) / cycle.cooldown)


def loss_of(logits: Tensor, wanted: Tensor, teacher: Tensor | None, distil: float) -> Tensor:
    """Cross-entropy, mixed with KL(teacher || model) when there is a teacher."""
    flat = logits.flatten(0, 1)  # [B*T, V]
    plain = functional.cross_entropy(flat, wanted.flatten())
    if teacher is None:
        return plain
    log_q = functional.log_softmax(flat, dim=-1)
    log_p = functional.log_softmax(teacher.flatten(0, 1), dim=-1)
    divergence = functional.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    return (1 - distil) * plain + distil * divergence


@torch.no_grad()
def held_out_loss(forward: Logits, batch: Tensor) -> float:
    """Mean nats per token over rows[B, T + 1], two thousand tokens at a time."""
    total = 0.0
    for part in torch.split(batch, max(1, 2048 // batch.shape[1])):
        logits = forward(part[:, :-1]).flatten(0, 1)
        total += float(functional.cross_entropy(logits, part[:, 1:].flatten(), reduction="sum"))
    return total / batch[:, 1:].numel()


@dataclass(frozen=True)
class Task:
    """One model to train: where, on what, towards what."""

    name: str
    shape: Shape
    schedule: Schedule
    work: Path
    train_ids: Ids
    held_out_ids: Ids
    breaks: Breaks
    teacher: Model | None = None

    @property
    def checkpoint(self) -> Path:
        """The file a killed run resumes from."""
        return self.work / f"{self.name}.pt"


def run(task: Task) -> Model:
    """Train to the end of the schedule, from the last checkpoint if there is one."""
    model = build(task.shape)
    if task.teacher is not None:
        borrow_embedding(model, task.teacher)
    both = optimizers(model, task.schedule)
    peaks = [both[0].defaults["lr"], both[1].defaults["lr"]]
    done = _resume(task, model, both)
    look = held_out_rows(task.held_out_ids, task.schedule.row_tokens, LOOK_TOKENS)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(task.name, total=task.schedule.steps, completed=done.step)
        while done.step < task.schedule.steps:
            began = time.perf_counter()
            share = rate(task.schedule, done.step)
            for optimizer, peak in zip(both, peaks, strict=True):
                optimizer.param_groups[0]["lr"] = peak * share
            loss = _step(task, model, both, done.step)
            done.step += 1
            done.seconds += time.perf_counter() - began
            shown = f"{task.name} {done.step} loss {loss:.3f}"
            progress.update(bar, advance=1, description=shown)
            if done.step % CHECK_EVERY == 0 or done.step == task.schedule.steps:
                held = held_out_loss(logits_of(model), look)
                done.history.append({"step": done.step, "loss": loss, "held_out": held})
                progress.console.print(f"{shown} held-out {held:.3f} after {done.seconds:.0f} s")
                _save(task, model, both, done)
    return model


def _step(task: Task, model: Model, both: list[Optimizer], step: int) -> float:
    batch = rows(task.train_ids, task.breaks, task.schedule, step)
    inputs, wanted = batch[:, :-1], batch[:, 1:]
    teacher = None
    if task.teacher is not None:
        with torch.no_grad():
            teacher = logits_of(task.teacher)(inputs)
    loss = loss_of(logits_of(model)(inputs), wanted, teacher, task.schedule.distil)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in both:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(loss.detach())


def _resume(task: Task, model: Model, both: list[Optimizer]) -> Progressed:
    if not task.checkpoint.exists():
        return Progressed()
    saved = torch.load(task.checkpoint, weights_only=True)
    if saved["shape"] != asdict(task.shape):
        raise SystemExit(f"{task.checkpoint} is of another shape: remove it to start afresh")
    model.load_state_dict(saved["model"])
    for optimizer, state in zip(both, saved["optimizers"], strict=True):
        optimizer.load_state_dict(state)
    return Progressed(**saved["progress"])


def _save(task: Task, model: Model, both: list[Optimizer], done: Progressed) -> None:
    task.work.mkdir(parents=True, exist_ok=True)
    fresh = task.checkpoint.with_suffix(".fresh")
    torch.save(
        {
            "model": model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in both],
            "progress": asdict(done),
            "schedule": asdict(task.schedule),
            "shape": asdict(task.shape),
        },
        fresh,
    )
    os.replace(fresh, task.checkpoint)
