"""The target's hidden states of every row, kept on disk in shards: made once, read many times."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paceline.drafters.checkpoint import fingerprint
from paceline.errors import ConfigError
from paceline.files import write_whole
from paceline.models import LoadedModel
from paceline.models.progress import Report
from paceline.runtime import Rows, Runner, pack

SHARD_ROWS = 32
NUMBER = np.float16
LARGEST = float(np.finfo(NUMBER).max)
MANIFEST = "capture.json"


@dataclass(frozen=True, eq=False)
class Captured:
    """Rows of ids and the states that the target had on them."""

    ids: Tensor
    """ids[R, T] int64."""
    layers: tuple[int, ...]
    folder: Path

    @cached_property
    def _shards(self) -> list[np.memmap]:
        count = -(-len(self.ids) // SHARD_ROWS)
        return [np.load(shard_path(self.folder, n), mmap_mode="r") for n in range(count)]

    def states(self, picked: Sequence[int]) -> dict[int, Tensor]:
        """layer -> states[B, T, E] float32 of those rows."""
        rows = [self._shards[row // SHARD_ROWS][row % SHARD_ROWS] for row in picked]
        stacked = torch.from_numpy(np.stack(rows)).float()  # [B, layers, T, E]
        return {layer: stacked[:, i] for i, layer in enumerate(self.layers)}


def capture(
    model: LoadedModel, ids: Tensor, layers: tuple[int, ...], folder: Path, report: Report
) -> Captured:
    """Run the target over ids[R, T] and keep the outputs of some layers.

    What an earlier call left in the folder is taken as done; a shard is whole or absent.

    Raises:
        ConfigError: the folder holds states of other text, layers or weights; or the disk has too
            little room.
    """
    claim(folder, model, ids, layers)
    shards = range(0, len(ids), SHARD_ROWS)
    missing = [start for start in shards if not shard_path(folder, start // SHARD_ROWS).exists()]
    need_room(folder, capture_bytes(model, ids, layers) * len(missing) // len(shards))
    runner = Runner.allocate(model, ids.shape[1])
    for start in missing:
        report(start, len(ids))
        rows = [run_row(runner, row, layers) for row in ids[start : start + SHARD_ROWS].tolist()]
        write_shard(shard_path(folder, start // SHARD_ROWS), np.stack(rows))
    report(len(ids), len(ids))
    return Captured(ids, layers, folder)


def run_row(runner: Runner, tokens: Sequence[int], layers: tuple[int, ...]) -> np.ndarray:
    """states[layers, T, E] of one text."""
    work = Rows(tokens=tokens, start=0, slots=np.arange(len(tokens)))
    hidden = runner.forward(pack([work], layers)).hidden
    stacked = torch.stack([hidden[layer].float() for layer in layers])
    return stacked.clamp(-LARGEST, LARGEST).cpu().numpy().astype(NUMBER)


def capture_bytes(model: LoadedModel, ids: Tensor, layers: tuple[int, ...]) -> int:
    """Bytes on disk of the states of ids[R, T]."""
    return ids.numel() * len(layers) * model.spec.hidden_size * NUMBER().itemsize


def need_room(folder: Path, size_bytes: int) -> None:
    """See that the disk has room; raises ConfigError."""
    free = shutil.disk_usage(folder).free
    if size_bytes > free:
        raise ConfigError(
            f"Hidden states will take {size_bytes / 1e9:.2f} GB in {folder}, where"
            f" {free / 1e9:.2f} GB are free; make room, or train on less text."
        )


def claim(folder: Path, model: LoadedModel, ids: Tensor, layers: tuple[int, ...]) -> None:
    """Write down whose states these are, or see that it is the same as before."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {
        "target": fingerprint(model.path),
        "layers": list(layers),
        "rows": list(ids.shape),
        "ids": hashlib.sha256(ids.numpy().tobytes()).hexdigest(),
    }
    path = folder / MANIFEST
    if not path.exists():
        write_whole(path, json.dumps(own).encode())
    elif json.loads(path.read_bytes()) != own:
        raise ConfigError(
            f"{folder} holds the states of other text, layers or weights; remove it, or train into"
            " another folder."
        )


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"states_{number:05}.npy"


def write_shard(path: Path, states: np.ndarray) -> None:
    """Write states[B, layers, T, E]; a kill leaves nothing at `path`."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.save(file, states)
    part.replace(path)
