"""Section D of what users reported of other engines: log-probabilities."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.engine import Engine
from paceline.sampling.logprobs import token_logprobs
from paceline.types import Output
from tests.engines import run
from tests.habits import DRAFTERS, HABIT, PROMPTS, ask, habits, logprobs_after

every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "coupled": {"temperature": 1.2, "top_k": 5, "seed": 3},
    "drawn": {"temperature": 1.2, "top_k": 5, "seed": 3, "rule": "multi"},
}


def told(habit: Engine, drafter: str, **settings: Any) -> list[Output]:
    settings = {"ignore_eos": True, "logprobs": 3, "drafter": drafter, **settings}
    return run(habit, *(ask(word, word, **settings) for word in PROMPTS))


@every_drafter
@pytest.mark.parametrize("kind", KINDS)
def test_logprobs_target(habit: Engine, drafter: str, kind: str) -> None:
    """vLLM 17876: all were 0.0. Each is the target's own, to the bit, drafted or not."""
    for prompt, output in zip(PROMPTS, told(habit, drafter, **KINDS[kind]), strict=True):
        tokens = HABIT.tokenizer.encode(prompt)
        assert output.logprobs is not None
        for token, entry in zip(output.token_ids, output.logprobs, strict=True):
            assert entry == token_logprobs(logprobs_after(tokens), token, 3)
            tokens.append(token)


@every_drafter
def test_logprobs_not_one(habit: Engine, drafter: str) -> None:
    """llama.cpp 27972: every token had p = 1. At temperature 0 the model's own law is told."""
    for output in told(habit, drafter, temperature=0.0):
        assert output.logprobs is not None
        assert all(-5 < entry.logprob < 0 for entry in output.logprobs)


@every_drafter
def test_logprobs_keep_spec(drafter: str) -> None:
    """vLLM 34497: log-probabilities turned speculation off."""
    with_them, without = (
        told(habits(drafter), drafter, temperature=0.0, logprobs=n) for n in (2, None)
    )
    assert [o.counts.accepted for o in with_them] == [o.counts.accepted for o in without]
    assert sum(o.counts.accepted for o in with_them) > 0


@every_drafter
def test_prompt_logprobs_no_crash(habit: Engine, drafter: str) -> None:
    """vLLM 8047: a crash, or a random first token."""
    for kind in ({**kind, "max_tokens": 6} for kind in KINDS.values()):
        plain = told(habit, drafter, **kind)
        for prompt, output, other in zip(
            PROMPTS, told(habit, drafter, prompt_logprobs=2, **kind), plain, strict=True
        ):
            ids, entries = HABIT.tokenizer.encode(prompt), output.prompt_logprobs
            assert entries is not None
            assert entries[0] is None
            assert list(entries[1:]) == [
                token_logprobs(logprobs_after(ids[:at]), ids[at], 2) for at in range(1, len(ids))
            ]
            if "rule" not in kind:  # drawn text hangs on the draft, too, which may differ
                assert output.token_ids == other.token_ids


@every_drafter
def test_logprobs_len_equals_tokens(habit: Engine, drafter: str) -> None:
    """sglang 14046: only the first token of a block had an entry; in deltas, too."""
    habit.add(ask("r", "b", drafter, temperature=0.0, logprobs=0))
    habit.add(ask("cut", "b", drafter, temperature=0.0, logprobs=0, max_tokens=7))
    told = {"r": (0, 0), "cut": (0, 0)}
    while habit.has_work:
        for delta in habit.step():
            assert len(delta.logprobs) == len(delta.token_ids)
            tokens, entries = told[delta.request_id]
            told[delta.request_id] = (tokens + len(delta.token_ids), entries + len(delta.logprobs))
    for name, (tokens, entries) in told.items():
        output = habit.take(name)
        assert output.logprobs is not None
        assert len(output.logprobs) == entries == tokens == len(output.token_ids)
