"""What goes wrong ends in one error, and the pool is idle afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculationConfig
from paceline.engine import LLM, Engine
from paceline.errors import ConfigError, RequestError
from paceline.tree import NO_DRAFT
from paceline.types import SamplingParams
from tests.engines import TARGET, engine, request, run
from tests.oracle import Oracle

GREEDY: dict[str, Any] = {"temperature": 0.0}


class Broken:
    """A live drafter that proposes nothing and fails where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def propose(self, contexts: Any, budgets: Any) -> Any:
        if self.where == "propose":
            self.fail("propose")
        return [NO_DRAFT for _ in contexts]

    def observe(self, observations: Any) -> None:
        if self.where == "observe" and any(seen.finished for seen in observations):
            self.fail("observe")

    def release(self, request_id: str) -> None:
        if self.where == "release":
            self.fail("release")

    def fail(self, where: str) -> None:
        raise RuntimeError(f"{where} is broken")


@pytest.mark.parametrize("where", ["propose", "observe", "release"])
def test_a_drafter_that_raises_leaves_nothing_behind(where: str) -> None:
    engine_ = engine("test_forest")
    live = {**engine_._step.drafters, "test_forest": Broken(where)}
    engine_._step = replace(engine_._step, drafters=live)
    requests = (request("one", max_tokens=3, **GREEDY), request("two", max_tokens=9, **GREEDY))
    with pytest.raises(RuntimeError, match=f"{where} is broken"):
        run(engine_, *requests)
    assert not engine_.has_work
    assert engine_._sequences == {}
    engine_.pool.check_idle()


def test_streams_beside_a_failed_pass_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.engine.llm.load_model", lambda *_, **__: Oracle())
    llm = LLM("oracle", draft="test_greedless")
    streams = [llm.stream([0, 1], SamplingParams(temperature=0)) for _ in range(2)]
    with pytest.raises(ConfigError, match="on a budget of 2"):
        streams[0].finish()
    with pytest.raises(RequestError, match="ended with a pass that failed"):
        streams[1].finish()
    for stream in streams:
        assert list(stream) == []
        with pytest.raises(RequestError, match="ended with a pass that failed"):
            stream.finish()
    assert llm._inboxes == {}
    llm.engine.pool.check_idle()


def test_no_draft_takes_the_row_of_another_sequence() -> None:
    """Six decoders in six rows: all advance in every pass, though each would draft six tokens."""
    engine_ = engine("test_forest", max_rows=6, max_num_requests=6)
    for name in "abcdef":
        engine_.add(request(name, name, **GREEDY))
    while not all(s.decodes for s in engine_._scheduler):
        engine_.step()
    for _ in range(4):
        assert {delta.request_id for delta in engine_.step()} == set("abcdef")
    for name in "abcdef":
        engine_.abort(name)


def test_the_first_pass_is_prefill_however_short_it_is() -> None:
    """A prompt that the prefix cache holds but for its last token counts as a cold one does."""
    engine_ = engine("test_forest")
    cold, warm = (run(engine_, request(name, "abcda", **GREEDY))[0] for name in ("cold", "warm"))
    assert warm.cached_tokens == 4
    assert warm.counts == cold.counts
    assert warm.counts.committed == len(warm.token_ids) - 1


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (CacheConfig, "block_tokens"),
        (CacheConfig, "num_blocks"),
        (CacheConfig, "max_bytes"),
        (SchedulerConfig, "max_num_requests"),
        (SchedulerConfig, "max_rows"),
        (SchedulerConfig, "max_model_len"),
    ],
)
def test_sizes_are_positive(part: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be at least 1, not 0"):
        part(**{field: 0})


def test_a_negative_draft_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="k must be >= 0, not -1"):
        SpeculationConfig(k=-1)
    with pytest.raises(ConfigError, match="'test_sampler:k=-1' wants k >= 0, not -1"):
        engine("test_sampler:k=-1")


def test_a_context_is_cut_to_what_the_cache_can_hold() -> None:
    """16 bytes a token: 640 bytes hold 40 tokens of the oracle's 64."""
    config = EngineConfig(cache=CacheConfig(max_bytes=640, block_tokens=4))
    assert Engine(TARGET, config).max_model_len == 40  # type: ignore[arg-type]
    asked = replace(config, scheduler=SchedulerConfig(max_model_len=44))
    with pytest.raises(ConfigError, match="holds 40 tokens, fewer than one context of 44"):
        Engine(TARGET, asked)  # type: ignore[arg-type]
