"""A model in three parts, and the package index that has them."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from paceline.models.aliases import Alias

PARTS = [bytes([number]) * (700 + number) for number in range(3)]
WHOLE = b"".join(PARTS)
TOY = Alias(
    name="toy",
    description="three parts of one byte each",
    licence="none",
    requirements=("toy-part1==1.0", "toy-part2==1.0", "toy-part3==1.0"),
    member=r"toy_part\d/data/part\d\.bin",
    size_bytes=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
)


class Index:
    """A package index in a dictionary: writes wheels where pip would, and counts."""

    def __init__(self, parts: list[bytes] | None = None) -> None:
        self.asked: list[str] = []
        self.members = {
            requirement: {f"toy_part{n}/data/part{n}.bin": part, f"toy_part{n}/__init__.py": b"1/0"}
            for n, (requirement, part) in enumerate(
                zip(TOY.requirements, parts or PARTS, strict=True), 1
            )
        }

    def __call__(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        with zipfile.ZipFile(folder / "some-1.0-py3-none-any.whl", "w") as wheel:
            for name, data in self.members[requirement].items():
                wheel.writestr(name, data)
