"""A file is there whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from paceline.files import write_whole


def test_a_file_is_written_over_another(tmp_path: Path) -> None:
    path = tmp_path / "new" / "plan.json"
    for data in (b"first", b"second"):
        write_whole(path, data)
        assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_what_was_there_and_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"before")
    write_bytes = Path.write_bytes

    def fill(self: Path, data: bytes) -> int:
        write_bytes(self, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, b"afterwards")
    assert caught.value.filename == str(path)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [
        ("plan.json", b"before")
    ]
