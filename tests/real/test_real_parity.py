"""The real pair: the same ids whatever the draft length, the batch and the threads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import paceline.certify
from paceline.engine import LLM
from paceline.kernels.library import use_threads
from paceline.types import SamplingParams, Speculation

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

PROMPTS = (Path(paceline.certify.__file__).parent / "prompts.txt").read_text().splitlines()
GREEDY = SamplingParams(temperature=0, max_tokens=64)
COUPLED = SamplingParams(temperature=0.8, seed=7, max_tokens=64)
BATCH = 8


@pytest.fixture(scope="module")
def coder() -> Iterator[LLM]:
    yield LLM(
        "qwen2.5-coder-1.5b",
        draft="model:qwen2.5-coder-0.5b:quantize=int4:head_ids=32000",
        kernels="native",
        max_model_len=1024,
        max_num_requests=BATCH,
    )
    use_threads(2)


def texts(llm: LLM, k: int, batch: int) -> list[tuple[int, ...]]:
    """The ids of every prompt, greedy and coupled by turns, so many at once."""
    prompts = [llm.render([{"role": "user", "content": p}]) for p in PROMPTS for _ in range(2)]
    params = [GREEDY, COUPLED] * len(PROMPTS)
    found: list[tuple[int, ...]] = []
    step = len(prompts) if batch == BATCH else batch
    for start in range(0, len(prompts), step):
        part = slice(start, start + step)
        outputs = llm.generate(prompts[part], params[part], speculation=Speculation(k=k))
        found += [output.token_ids for output in outputs]
    llm.engine.pool.forget_prefixes()
    llm.engine.pool.check_idle()
    return found


@pytest.fixture(scope="module")
def plain(coder: LLM) -> list[tuple[int, ...]]:
    return texts(coder, 0, BATCH)


@pytest.mark.parametrize(
    ("k", "batch", "threads"), [(0, 1, 1), *product([1, 3, 7], [1, BATCH], [2, 1])]
)
def test_no_forks(
    coder: LLM, plain: list[tuple[int, ...]], k: int, batch: int, threads: int
) -> None:
    assert len(plain) == 2 * len(PROMPTS) == 40
    assert len(set(plain)) > len(PROMPTS)
    use_threads(threads)
    assert texts(coder, k, batch) == plain
