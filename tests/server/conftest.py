"""One server for all tests that only talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from paceline.engine import LLM
from tests.conftest import ALL_DRAFTS
from tests.live_server import Live, live


@pytest.fixture(scope="session")
def served_llm() -> LLM:
    """A model that servers own, one after the other."""
    return LLM("mini", draft=ALL_DRAFTS)


@pytest.fixture(scope="session")
def server(served_llm: LLM) -> Iterator[Live]:
    with live(served_llm) as running:
        yield running


@pytest.fixture(scope="session")
def client(server: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client
