"""Steps of one owner's requests: the others wait, and lose nothing by it."""

from __future__ import annotations

import pytest

from paceline.engine import LLM
from paceline.errors import CacheError
from paceline.types import Request, SamplingParams, StepStats

PARAMS = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)


def asked(llm: LLM, text: str, owner: str) -> Request:
    return Request(id=text, prompt_ids=tuple(llm.encode(text)), params=PARAMS, owner=owner)


def test_the_others_wait() -> None:
    llm = LLM("mini", max_num_requests=2, max_model_len=64)
    alone = {text: llm.generate(text, PARAMS)[0].token_ids for text in ("x = 1\n", "import os\n")}
    engine, heard = llm.engine, list[StepStats]()
    engine.listeners.append(heard.append)
    engine.add(asked(llm, "x = 1\n", "a"))
    engine.add(asked(llm, "import os\n", "b"))
    for _ in range(3):
        engine.step("b")  # although a came first
    assert (engine.running_count, engine.waiting_count) == (1, 1)
    for _ in range(2):
        engine.step("a")
    drafts = [{one.request_id for one in step.drafts} for step in heard]
    assert drafts == [set(), {"import os\n"}, {"import os\n"}, set(), {"x = 1\n"}]
    assert all(step.prefill_rows == 0 for step in heard if step.drafts)
    while engine.has_work:
        engine.step()
    assert {text: engine.take(text).token_ids for text in alone} == alone


def test_an_owner_without_room_is_told() -> None:
    llm = LLM("mini", max_num_requests=1, max_model_len=64)
    llm.engine.add(asked(llm, "x = 1\n", "a"))
    llm.engine.step("a")
    llm.engine.add(asked(llm, "import os\n", "b"))
    with pytest.raises(CacheError, match="No request finds room in the cache"):
        llm.engine.step("b")
    assert not llm.engine.has_work
