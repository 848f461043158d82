"""One training run: text, states, steps, the finished head."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from paceline.drafters.checkpoint import describe_target, save_head
from paceline.models import LoadedModel
from paceline.models.progress import Report
from paceline.train.capture import Captured, capture, capture_bytes
from paceline.train.generate import generate_rows
from paceline.train.loop import Objective, Progress, Recipe, Tell, train
from paceline.train.text import Corpus, read_corpus

CAPTURES = "captured"


class Exporting(Objective, Protocol):
    """An objective whose head can be written."""

    @property
    def captured_layers(self) -> tuple[int, ...]:
        """Layers of the target whose states it learns from."""

    def export(self, captured: Captured) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What config.json says beyond the target, and the tensors."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The text of a run."""

    data: Path
    held_out: Path | None = None
    row_tokens: int = 256
    generate: bool = False
    """Train on what the target itself writes after the beginnings of the rows."""
    temperature: float = 1.0
    """Of that writing."""
    captured: Path | None = None
    """Where rows and states are kept; heads of one target and text may share it. None: with the
    head."""

    def folder(self, out: Path, name: str, layers: tuple[int, ...] = ()) -> Path:
        """The folder of some rows, or of some layers' states on them."""
        kept = out / CAPTURES if self.captured is None else self.captured
        return kept / "_".join((name, *map(str, layers)))


@dataclass(frozen=True, eq=False)
class Told:
    """Who is told of a run's stages."""

    stage: Callable[[str], Report]
    """stage(name) gives what is called with (done, total) rows."""
    size: Callable[[int], None]
    """Called with the bytes that the states will take, before they are captured."""
    step: Tell


def run(
    target: LoadedModel,
    make: Callable[[Corpus], Exporting],
    source: Source,
    recipe: Recipe,
    out: Path,
    told: Told,
    leg_s: float | None = None,
) -> tuple[Progress, Captured]:
    """Train a head into `out`, going on where an earlier call of the same run was stopped.

    Whenever it ends, finished or after `leg_s` seconds of steps, `out` holds a head that can be
    served. Returns the progress and the held-out rows.

    Raises:
        ConfigError: there is no text, the disk is too small, or `out` holds another run.
        OSError: the disk is full; what was there before is whole.
    """
    corpus = corpus_of(target, source, out, told)
    objective = make(corpus)
    layers = objective.captured_layers
    parts = {"train": corpus.train, "held_out": corpus.held_out}
    told.size(sum(capture_bytes(target, ids, layers) for ids in parts.values()))
    data = [
        capture(
            target, ids, layers, source.folder(out, name, layers), told.stage(f"states, {name}")
        )
        for name, ids in parts.items()
    ]
    progress = train(objective, (data[0], data[1]), recipe, out, told.step, leg_s)
    config, tensors = objective.export(data[1])
    save_head(out, {**config, **provenance(target, source, recipe, corpus, progress)}, tensors)
    return progress, data[1]


def corpus_of(target: LoadedModel, source: Source, out: Path, told: Told) -> Corpus:
    """The rows of a run: the text's, or the target's own after their beginnings."""
    corpus = read_corpus(source.data, target, source.row_tokens, source.held_out)
    if not source.generate:
        return corpus
    return Corpus(
        *(
            generate_rows(
                target,
                getattr(corpus, name),
                source.temperature,
                source.folder(out, f"generated_{name}"),
                told.stage(f"generate, {name}"),
            )
            for name in ("train", "held_out")
        )
    )


def provenance(
    target: LoadedModel, source: Source, recipe: Recipe, corpus: Corpus, progress: Progress
) -> dict[str, Any]:
    """Where a head comes from, and how it did on held-out text."""
    return {
        "target": describe_target(target),
        "provenance": {
            "data": source.data.name,
            "generated": source.generate,
            "train_rows": list(corpus.train.shape),
            "held_out_rows": list(corpus.held_out.shape),
            "recipe": asdict(recipe),
            "steps": progress.step,
            "seconds": round(progress.seconds, 1),
            "held_out": progress.curves[-1] if progress.curves else None,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
