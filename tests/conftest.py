"""Fixtures: nothing is downloaded, everything runs on the embedded model."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
import secrets
from collections.abc import Callable

import pytest

from paceline.config import CacheConfig, EngineConfig, SchedulerConfig
from paceline.engine import LLM

ALL_DRAFTS = ("model:mini-draft", "ngram", "suffix")
PROMPTS = (
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n",
    "import os\n\nclass Reader:\n    def __init__(self, path):\n",
    "for i in range(10):\n    print(i)\nfor i in range(10):\n    print(i)\nfor i in",
    "x = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1,",
    '"""A module.',
)


@pytest.fixture(autouse=True)
def same_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without a seed draw the same in every run of a test."""
    monkeypatch.setattr(secrets, "randbits", random.Random(request.node.nodeid).getrandbits)


@pytest.fixture(scope="session")
def mini() -> LLM:
    """The embedded target with every drafter that needs no training."""
    return LLM("mini", draft=ALL_DRAFTS)


@pytest.fixture(scope="session")
def build() -> Callable[..., LLM]:
    """An LLM on the embedded model with a small pool or other settings of the engine."""

    def make(*drafts: str, blocks: int | None = None, **scheduler: int) -> LLM:
        config = EngineConfig(
            cache=CacheConfig(num_blocks=blocks, block_tokens=4),
            scheduler=SchedulerConfig(**scheduler),  # type: ignore[arg-type]
        )
        return LLM("mini", draft=drafts or ALL_DRAFTS, config=config)

    return make
