"""Self-distillation: rows that the target itself goes on from the beginnings of the text's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paceline.config import EngineConfig, SchedulerConfig
from paceline.engine import Engine
from paceline.models import LoadedModel
from paceline.models.progress import Report
from paceline.train.capture import SHARD_ROWS, claim, shard_path, write_shard
from paceline.types import Request, SamplingParams

PROMPT_SHARE = 8
"""One token in so many of a row is the text's."""


def generate_rows(
    model: LoadedModel, ids: Tensor, temperature: float, folder: Path, report: Report
) -> Tensor:
    """rows[R, T]: the first eighth of each row of ids[R, T], and the target's own continuation.

    Sampled with the row's number as seed; what an earlier call left in the folder is done.

    Raises:
        ConfigError: the folder holds rows that were made of other text.
    """
    claim(folder, model, ids, ())
    engine = Engine(model, EngineConfig(scheduler=SchedulerConfig(max_num_requests=SHARD_ROWS)))
    shards = []
    for start in range(0, len(ids), SHARD_ROWS):
        path = shard_path(folder, start // SHARD_ROWS)
        if not path.exists():
            report(start, len(ids))
            write_shard(
                path, continue_rows(engine, ids[start : start + SHARD_ROWS], start, temperature)
            )
        shards.append(np.load(path))
    report(len(ids), len(ids))
    return torch.from_numpy(np.concatenate(shards))


def continue_rows(engine: Engine, ids: Tensor, first: int, temperature: float) -> np.ndarray:
    """rows[R, T] of the target's own text after the beginnings of ids[R, T]."""
    length = ids.shape[1]
    prompts = ids[:, : max(1, length // PROMPT_SHARE)].tolist()
    for row, prompt in enumerate(prompts, start=first):
        params = SamplingParams(
            temperature=temperature, seed=row, max_tokens=length - len(prompt), ignore_eos=True
        )
        engine.add(Request(id=str(row), prompt_ids=tuple(prompt), params=params))
    while engine.has_work:
        engine.step()
    outputs = [engine.take(str(row)) for row in range(first, first + len(prompts))]
    return np.array([p + list(o.token_ids) for p, o in zip(prompts, outputs, strict=True)])
