"""Several threads may call one LLM: each gets its own text, and the pool is idle afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from paceline.engine import LLM
from paceline.types import SamplingParams
from tests.conftest import PROMPTS


def test_threads_get_their_own_texts(mini: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=16)
    expected = [o.token_ids for o in mini.generate(PROMPTS, params)]
    with ThreadPoolExecutor(5) as threads:
        rounds = [
            list(threads.map(lambda prompt: mini.generate(prompt, params)[0].token_ids, PROMPTS))
            for _ in range(4)
        ]
    assert rounds == [expected] * 4
    mini.engine.pool.check_idle()
