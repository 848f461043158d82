"""docs/compatibility.md is what the walk over the combinations finds."""

from __future__ import annotations

from pathlib import Path

from tests.compatibility import document

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_the_page_is_what_the_walk_finds() -> None:
    """The walk itself fails on a crash, a changed text, and a setting that is ignored."""
    assert PAGE.read_text() == document(), (
        "run: python -m tests.compatibility > docs/compatibility.md"
    )
