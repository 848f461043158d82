"""Sections I, J and M of what users reported: memory, scheduling, prefix cache, vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from paceline.engine import LLM, Engine
from paceline.errors import ConfigError, PacelineError, UnknownNameError, VocabularyError
from paceline.structured import StructuredOutput
from tests.engines import run
from tests.habits import DRAFTERS, HABIT, LIKE, MODELS, PROMPTS, alone, ask, habits
from tests.oracle import Letters

FREE: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
SEEDED: dict[str, Any] = {"temperature": 1.0, "seed": 8, "ignore_eos": True}
every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)


def failing(output: list[int], row: Any) -> Any:
    return row if len(output) < 5 else None


@every_drafter
def test_kv_zero_leak(drafter: str) -> None:
    """sglang-jax 1147: one request leaked 128 slots. All come back, however a request ends."""
    engine = habits(drafter)
    ends = ({}, {"stop": ("c",)}, {"max_tokens": 1}, {"logits_processors": (failing,)})
    for end in ends:
        run(engine, ask("r", drafter=drafter, **{**SEEDED, **end}))
        assert (engine.pool.used_count, engine.pool.free_count) == (0, engine.pool.num_blocks)
    engine.add(ask("r", drafter=drafter, **SEEDED))
    engine.step()
    engine.step()
    assert engine.pool.used_count > 0
    engine.abort("r")
    assert engine.pool.free_count == engine.pool.num_blocks


@every_drafter
def test_no_growth_when_off(drafter: str) -> None:
    """vLLM 15506: speculation was off and its state grew with each step, here a thousand."""
    engine = habits(drafter)
    live = engine._drafters[drafter].live
    steps = 0
    for name in map(str, range(42)):
        engine.add(ask(name, drafter=drafter, k=0, **FREE))
        while engine.has_work:
            engine.step()
            steps += 1
        engine.take(name)
        assert not any(name in held for held in holdings(live))
    assert steps >= 1000
    assert engine._sequences == {}


def holdings(live: object) -> list[Mapping[Any, Any]]:
    """What a drafter keeps by request."""
    parts = [live, *vars(live).values()]
    fields = [value for part in parts if hasattr(part, "__dict__") for value in vars(part).values()]
    return [held for held in fields if isinstance(held, Mapping)]


@every_drafter
@pytest.mark.parametrize("settings", [FREE, SEEDED], ids=["greedy", "coupled"])
def test_preempt_parity(drafter: str, settings: dict[str, Any]) -> None:
    """sglang 2711, vLLM 16832: a request that had to give way came back with another text."""
    engine = habits(drafter, blocks=16, max_num_requests=4)
    preempted = list[int]()
    engine.listeners.append(lambda stats: preempted.append(stats.preempted))
    outputs = run(engine, *(ask(word, word, drafter, **settings) for word in PROMPTS))
    assert [list(o.token_ids) for o in outputs] == [alone(word, **settings) for word in PROMPTS]
    assert sum(preempted) > 0


@every_drafter
def test_cancel_frees(drafter: str) -> None:
    """am17an 20: a slot whose client had gone was held for hours."""
    for steps in (0, 1, 2, 4):
        engine = habits(drafter)
        for word in PROMPTS:
            engine.add(ask(word, word, drafter, **SEEDED))
        for _ in range(steps):
            engine.step()
        used = engine.pool.used_count
        goes = PROMPTS[1]
        assert engine.abort(goes).finish_reason == "abort"
        assert engine.pool.used_count < used or not steps
        while engine.has_work:
            engine.step()
        for word in PROMPTS:
            if word != goes:
                assert list(engine.take(word).token_ids) == alone(word, **SEEDED)
        engine.pool.check_idle()


def test_empty_draft() -> None:
    """buun-llama-cpp 74: a draft of nothing was taken for a draft. It is a plain step."""
    engine = habits("ngram:min_n=4")
    rows = list[tuple[int, int]]()
    engine.listeners.append(lambda stats: rows.append((stats.verify_rows, stats.committed)))
    (output,) = run(engine, ask("r", "abcdef", "ngram:min_n=4", **{**FREE, "max_tokens": 12}))
    assert list(output.token_ids) == alone("abcdef", **{**FREE, "max_tokens": 12})
    assert output.counts.proposed == 0
    assert set(rows[1:]) == {(1, 1)}


def test_fail_fast_start() -> None:
    """mlx-lm 1446: what could not work was found out by the first request; or batching went off."""
    for draft in ("nope", "ngram:k=0", "ngram:ke=3", "suffix:depth=1", "model:/nowhere/at.gguf"):
        with pytest.raises(PacelineError):
            LLM("mini", draft=draft)
    engine = habits("model:like")
    for word in PROMPTS:
        engine.add(ask(word, word, "model:like", **FREE))
    together = 0
    while engine.has_work:
        together = max(together, len(engine.step()))
    assert together == len(PROMPTS)


def test_draft_kv_budget(mini: LLM) -> None:
    """TensorRT-LLM 9279: the draft's cache was as large as the target's; it has its own shape."""
    live: Any = mini.engine._drafters["model:mini-draft"].live
    draft, slots = live._runner.model, mini.engine.pool.num_blocks * mini.engine.pool.block_tokens
    held = sum(tensor.nbytes for tensor in live._runner.kv.tensors)
    assert held == slots * draft.kv_bytes_per_token()
    assert held < slots * mini.model.kv_bytes_per_token()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"rule": "greedy", "temperature": 1.0}, "'greedy' is exact at temperature 0 only"),
        ({"rule": "block", "drafter": "test_branches"}, "'block' verifies chains"),
        ({"rule": "token", "drafter": "suffix"}, "'token' verifies chains"),
        ({"structured": StructuredOutput(regex="a+"), "ignore_eos": True}, "ignore_eos cannot be"),
        ({"structured": StructuredOutput(regex="a+"), "min_tokens": 2}, "min_tokens cannot be"),
        ({"drafter": "medusa"}, "Unknown loaded drafter 'medusa'"),
    ],
)
def test_unsupported_combo_error(habit: Engine, bad: dict[str, Any], message: str) -> None:
    """vLLM 30436: a combination that is not served failed with an AttributeError, somewhere."""
    with pytest.raises(PacelineError, match=message):
        habit.add(ask("r", **bad))
    with pytest.raises(UnknownNameError, match="'pipeline_parallel_size'"):
        LLM("mini", pipeline_parallel_size=2)  # type: ignore[call-arg]


@every_drafter
def test_acceptance_drift_alarm(drafter: str) -> None:
    """sglang 28771: the accepted length fell over two hours of a warm cache. It does not fall."""
    engine = habits(drafter, blocks=40)
    accepted = []
    for round_ in range(6):
        outputs = run(engine, *(ask(word, word, drafter, **FREE) for word in PROMPTS))
        run(engine, ask(f"other{round_}", "fed" * round_ + "b", drafter, **SEEDED))
        accepted.append(sum(o.counts.accepted for o in outputs))
    assert min(accepted[1:]) >= accepted[1] * 0.9 >= accepted[0] * 0.7 > 0


@pytest.fixture
def draft(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Engine]:
    """Build an engine whose draft model has other ids or other sizes."""

    def make(**changes: Any) -> Engine:
        monkeypatch.setitem(MODELS, "like", replace(LIKE, **changes))
        return habits("model:like")

    return make


def test_vocab_check(draft: Callable[..., Engine]) -> None:
    """sglang 24051: a draft of another vocabulary started, and corrupted the output in silence."""
    with pytest.raises(VocabularyError, match="id 8 is unnamed to the target and 'i' to the draft"):
        draft(vocab_size=9, tokenizer=Letters(9))
    with pytest.raises(ConfigError, match="Unknown"):
        habits("model:like:vocabulary_check=false")


@pytest.mark.parametrize("padding", [1, 6])
def test_vocab_padding_ok(draft: Callable[..., Engine], padding: int) -> None:
    """vLLM 5203: the same ids were refused for the number of rows that pad them."""
    engine = draft(vocab_size=HABIT.vocab_size + padding)
    for settings in (FREE, SEEDED):
        outputs = run(engine, *(ask(word, word, "model:like", **settings) for word in PROMPTS))
        assert [list(o.token_ids) for o in outputs] == [alone(word, **settings) for word in PROMPTS]
        assert sum(o.counts.accepted for o in outputs) > 0
