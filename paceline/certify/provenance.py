"""What a certificate is about: the files, the versions, the machine, the command."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from paceline.files import write_whole
from paceline.kernels.library import features
from paceline.kernels.machine import cores, cpu_name
from paceline.models import LoadedModel
from paceline.models.pull import cache_folder

CHUNK = 1 << 24

HashProgress = Callable[[int, int, str], None]
"""(bytes done, bytes in all, file)."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Enough to run it again."""

    command: str
    date: str
    """UTC."""
    model: str | None
    """None where none was run here: the proofs need none, nor do two servers."""
    weights_sha256: dict[str, str]
    """File name -> its SHA-256, as `sha256sum` prints it."""
    drafts: tuple[str, ...]
    endpoints: tuple[str, ...]
    """Each server that was audited, by model and URL."""
    versions: dict[str, str]
    cpu: str
    kernels: str


def provenance(
    command: str,
    model: LoadedModel | None = None,
    drafts: tuple[str, ...] = (),
    *,
    endpoints: tuple[str, ...] = (),
    progress: HashProgress = lambda done, total, what: None,
) -> Provenance:
    """Look all of it up; hashing a model's weights takes a while, once."""
    return Provenance(
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        model=model.name if model else None,
        weights_sha256=weights_sha256(model.path, progress) if model else {},
        drafts=drafts,
        endpoints=endpoints,
        versions={
            "paceline": version("paceline"),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        cpu=f"{cpu_name()}, {cores()} cores",
        kernels=kernels_of(model),
    )


def kernels_of(model: LoadedModel | None) -> str:
    """What computed: the native library's path, or torch."""
    if model is None:
        return "no model was run"
    if not model.native:
        return f"torch on {model.device}"
    found = features()
    return f"native, {found.path}, {found.threads} threads"


def weights_sha256(path: Path, progress: HashProgress) -> dict[str, str]:
    """The hash of a GGUF file, or of each safetensors file of a folder."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return {file.name: cached_sha256(file, progress) for file in files}


def cached_sha256(file: Path, progress: HashProgress) -> str:
    """The file's hash; read again only where its size or time of change is another."""
    status, store = file.stat(), cache_folder() / "hashes.json"
    key = f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        known = dict(json.loads(store.read_text()))
    if key not in known:
        known[key] = sha256(file, status.st_size, progress)
        with contextlib.suppress(OSError):  # a folder that cannot be written costs time alone
            write_whole(store, json.dumps(known, indent=1).encode())
    return known[key]


def sha256(file: Path, size: int, progress: HashProgress) -> str:
    """Hash a file of `size` bytes."""
    found, done = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
            done += len(chunk)
            progress(done, size, f"hashing {file.name}")
    return found.hexdigest()
