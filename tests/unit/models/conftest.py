"""A cache of pulled models with nothing in it; native tests exist where the library does."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_index import TOY

from paceline.kernels.library import available
from paceline.models.aliases import ALIASES

collect_ignore_glob = [] if available() else ["test_packing.py"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of pulled models, empty, with `toy` among the aliases."""
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    monkeypatch.setitem(ALIASES, "toy", TOY)
    return tmp_path / "models"
