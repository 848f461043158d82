"""The habitual oracle with every drafter loaded; each case leaves its pool idle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paceline.engine import Engine
from tests.habits import habits


@pytest.fixture(scope="session")
def kept() -> Engine:
    return habits()


@pytest.fixture
def habit(kept: Engine) -> Iterator[Engine]:
    yield kept
    kept.pool.check_idle()
    kept.pool.forget_prefixes()
