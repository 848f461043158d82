"""The training loop: AdamW, warm-up then cosine, checkpoints that a kill cannot tear."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from .batches import Ids, held_out_rows, rows
from .recipe import CONTEXT, SEED, VOCAB, Schedule, Shape

Model = Any
Logits = Callable[[Tensor], Tensor]
CHECK_EVERY = 100
LOOK_TOKENS = 32768


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


def logits_of(model: Model) -> Logits:
    """Forward in bf16 where that pays: ids[B, T] -> logits[B, T, V] in fp32."""

    def forward(ids: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits: Tensor = model(input_ids=ids).logits
        return logits.float()

    return forward


def learning_rate(schedule: Schedule, step: int) -> float:
    """Linear warm-up, then cosine down to a small share of the peak."""
    if step < schedule.warmup:
        return schedule.peak_lr * (step + 1) / schedule.warmup
    share = (step - schedule.warmup) / max(1, schedule.steps - schedule.warmup)
    low = schedule.final_lr_share
    return schedule.peak_lr * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * share)))


def loss_of(logits: Tensor, wanted: Tensor, teacher: Tensor | None, distil: float) -> Tensor:
    """Cross-entropy, mixed with KL(teacher || model) when there is a teacher."""
    flat = logits.flatten(0, 1)  # [B*T, V]
    plain = F.cross_entropy(flat, wanted.flatten())
    if teacher is None:
        return plain
    log_q = F.log_softmax(flat, dim=-1)
    log_p = F.log_softmax(teacher.flatten(0, 1), dim=-1)
    divergence = F.kl_div(log_q, log_p, log_target=True, reduction="batchmean")
    return (1 - distil) * plain + distil * divergence


@torch.no_grad()
def held_out_loss(forward: Logits, batch: Tensor) -> float:
    """Mean nats per token over rows[B, T + 1], two thousand tokens at a time."""
    total = 0.0
    for part in batch.split(max(1, 2048 // batch.shape[1])):
        logits = forward(part[:, :-1]).flatten(0, 1)
        total += float(F.cross_entropy(logits, part[:, 1:].flatten(), reduction="sum"))
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
    teacher: Logits | None = None

    @property
    def checkpoint(self) -> Path:
        """The file a killed run resumes from."""
        return self.work / f"{self.name}.pt"


def run(task: Task) -> Model:
    """Train to the end of the schedule, from the last checkpoint if there is one."""
    model = build(task.shape)
    optimizer = _optimizer(model, task.schedule)
    done = _resume(task, model, optimizer)
    look = held_out_rows(task.held_out_ids, task.schedule.row_tokens, LOOK_TOKENS)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(task.name, total=task.schedule.steps, completed=done.step)
        while done.step < task.schedule.steps:
            began = time.perf_counter()
            loss = _step(task, model, optimizer, done.step)
            done.step += 1
            done.seconds += time.perf_counter() - began
            shown = f"{task.name} {done.step} loss {loss:.3f}"
            progress.update(bar, advance=1, description=shown)
            if done.step % CHECK_EVERY == 0 or done.step == task.schedule.steps:
                held = held_out_loss(logits_of(model), look)
                done.history.append({"step": done.step, "loss": loss, "held_out": held})
                progress.console.print(f"{shown} held-out {held:.3f} after {done.seconds:.0f} s")
                _save(task, model, optimizer, done)
    return model


def _step(task: Task, model: Model, optimizer: torch.optim.Optimizer, step: int) -> float:
    batch = rows(task.train_ids, task.schedule, step)
    inputs, wanted = batch[:, :-1], batch[:, 1:]
    teacher = None
    if task.teacher is not None:
        with torch.no_grad():
            teacher = task.teacher(inputs)
    loss = loss_of(logits_of(model)(inputs), wanted, teacher, task.schedule.distil)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(task.schedule, step)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(loss)


def _optimizer(model: Model, schedule: Schedule) -> torch.optim.AdamW:
    """Matrices decay; the norms' gains do not."""
    matrices = [weight for weight in model.parameters() if weight.dim() >= 2]
    gains = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": schedule.weight_decay},
        {"params": gains, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=schedule.peak_lr, betas=(0.9, 0.95), fused=True)


def _resume(task: Task, model: Model, optimizer: torch.optim.Optimizer) -> Progressed:
    if not task.checkpoint.exists():
        return Progressed()
    saved = torch.load(task.checkpoint, weights_only=True)
    if saved["schedule"] != asdict(task.schedule) or saved["shape"] != asdict(task.shape):
        raise SystemExit(f"{task.checkpoint} is of another recipe: remove it to start afresh")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return Progressed(**saved["progress"])


def _save(task: Task, model: Model, optimizer: torch.optim.Optimizer, done: Progressed) -> None:
    task.work.mkdir(parents=True, exist_ok=True)
    fresh = task.checkpoint.with_suffix(".fresh")
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "progress": asdict(done),
            "schedule": asdict(task.schedule),
            "shape": asdict(task.shape),
        },
        fresh,
    )
    os.replace(fresh, task.checkpoint)
