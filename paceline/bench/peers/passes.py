"""llama.cpp's passes beside ours: the same file, rows, context and threads.

`llama-bench` computes the logits of a pass's last row alone and Paceline those of all rows, as a
verification needs: the comparison favours the peer by its LM head.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from paceline.errors import ConfigError

Passes = Callable[[], list[float]]
"""Runs some passes for each number of rows; returns their median milliseconds."""

PASSES = 3
"""Of each number of rows, in each turn."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What both engines run."""

    model: Path
    rows: tuple[int, ...]
    context: int
    threads: int


def find_llama_cpp(workload: Workload, binary: str | None) -> Passes:
    """The peer: a llama-bench, else the package llama-cpp-python.

    Raises:
        ConfigError: there is neither.
    """
    found = shutil.which(binary or "llama-bench")
    if found:
        return partial(run_llama_bench, found, workload)
    if binary:
        raise ConfigError(f"There is no program '{binary}'; give --bin the path of a llama-bench.")
    try:
        from paceline.bench.peers.llama_package import LlamaPackage  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "llama.cpp is not here; name a llama-bench with --bin, or install llama-cpp-python."
        ) from error
    return LlamaPackage(workload).run


def run_llama_bench(binary: str, workload: Workload) -> list[float]:
    """The median of three passes for each number of rows, in ms; raises ConfigError."""
    rows = ",".join(map(str, workload.rows))
    options = (
        f"-t {workload.threads} -n 0 -d {workload.context} -r {PASSES} -p {rows} -o json".split()
    )
    command = [binary, "-m", str(workload.model), *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = ran.stderr.strip().splitlines()[-1:] or ["no message"]
        raise ConfigError(f"{binary} failed with code {ran.returncode}: {last[0]:.200}")
    return median_samples(ran.stdout, workload.rows)


def median_samples(printed: str, rows: Sequence[int]) -> list[float]:
    """llama-bench's JSON -> ms by rows; raises ConfigError where one is missing."""
    try:
        tests: list[dict[str, Any]] = json.loads(printed)
        found = {test["n_prompt"]: median(test["samples_ns"]) / 1e6 for test in tests}
        return [found[count] for count in rows]
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError("This llama-bench prints no such JSON; take a newer one.") from error


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One number of rows; each engine's median turn."""

    rows: int
    ms: float
    peer_ms: float

    @property
    def ratio(self) -> float:
        """Ours over the peer's."""
        return self.ms / self.peer_ms

    def as_record(self) -> dict[str, float]:
        """The comparison as plain values."""
        return {"rows": self.rows, "ms": self.ms, "peer_ms": self.peer_ms, "ratio": self.ratio}


def compare(ours: Passes, peers: Passes, rows: Sequence[int], rounds: int) -> list[Comparison]:
    """Run both by turns, so that a busy spell slows both."""
    pairs = [(ours(), peers()) for _ in range(rounds)]
    middle = [map(median, zip(*side, strict=True)) for side in zip(*pairs, strict=True)]
    return [
        Comparison(rows=count, ms=own, peer_ms=peer)
        for count, own, peer in zip(rows, *middle, strict=True)
    ]
