"""Speculation on is speculation off: any settings, company, pool, cancellation and cache."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from paceline.engine import Engine
from paceline.structured import StructuredOutput
from paceline.types import Output, Request
from tests.habits import DRAFTERS, V, ask, habits


def wayward(output: list[int], row: Tensor) -> Tensor:
    """Hangs on the path, and fails on some of them."""
    if output[-2:] == [2, 3]:
        raise LookupError("this path")
    return row + 0.3 * torch.arange(V) * (len(output) % 3)


letters = st.text("abcdefgh", min_size=1, max_size=20)
ids = st.integers(0, V - 1)
SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "top_k": st.integers(1, 5),
    "top_p": st.floats(0.3, 0.99),
    "min_p": st.floats(0.01, 0.5),
    "typical_p": st.floats(0.3, 0.99),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.6, 1.8),
    "logit_bias": st.dictionaries(ids, st.floats(-9, 9), max_size=3),
    "bad_words": st.lists(st.text("abcdef", min_size=1, max_size=3), max_size=3),
    "allowed_token_ids": st.lists(ids, min_size=2, max_size=6, unique=True),
    "logits_processors": st.just((wayward,)),
    "thinking_budget": st.integers(0, 4),
    "stop": st.lists(st.text("abcdef", min_size=1, max_size=3), max_size=2),
    "stop_token_ids": st.lists(ids, max_size=2),
    "logprobs": st.integers(0, 3),
    "prompt_logprobs": st.integers(0, 3),
    "processed_logprobs": st.booleans(),
}
ENDINGS: tuple[st.SearchStrategy[dict[str, Any]], ...] = (
    st.fixed_dictionaries({"ignore_eos": st.booleans()}),
    st.fixed_dictionaries({"min_tokens": st.integers(0, 9)}),
    st.fixed_dictionaries({"structured": st.just(StructuredOutput(regex="([a-d]{2,4}e|f)+"))}),
)


@st.composite
def requests(draw: st.DrawFn, name: str) -> tuple[Request, Request]:
    """A request that drafts, and the same without a draft."""
    few = draw(st.sets(st.sampled_from(list(SETTINGS)), max_size=5))
    asked = {key: draw(SETTINGS[key]) for key in sorted(few)} | draw(st.one_of(*ENDINGS))
    if "prompt_logprobs" in asked:
        asked.pop("processed_logprobs", None)  # they exclude each other
    asked |= {"max_tokens": draw(st.integers(9, 24)), "temperature": 0.0}
    if draw(st.booleans()):
        asked |= {"temperature": draw(st.floats(0.1, 3)), "seed": draw(st.integers(0, 99))}
    prompt, drafter = draw(letters), draw(st.sampled_from(DRAFTERS))
    k = draw(st.integers(1, 7))
    return ask(name, prompt, drafter, k=k, **asked), ask(name, prompt, k=0, **asked)


@st.composite
def companies(draw: st.DrawFn) -> list[tuple[Request, Request]]:
    return [draw(requests(name)) for name in "abcd"[: draw(st.integers(1, 4))]]


def told(output: Output) -> tuple[Any, ...]:
    """What speculation may not change."""
    text = output.token_ids, output.text, output.finish_reason, output.error
    return *text, output.logprobs, output.prompt_logprobs


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    company=companies(),
    blocks=st.integers(17, 40),
    max_rows=st.integers(1, 40),
    cancelled=st.integers(0, 40),
    warm=st.booleans(),
)
def test_drafted_is_plain(
    company: list[tuple[Request, Request]], blocks: int, max_rows: int, cancelled: int, warm: bool
) -> None:
    engine = habits(blocks=blocks, max_rows=max_rows, max_num_requests=3)
    alone = {plain.id: run_alone(habits(), plain) for _, plain in company}
    for _ in range(1 + warm):  # the second time finds prefixes, and what suffixes remember
        leaving = company[0][0].id if cancelled % 2 else None
        outputs = run_together(engine, [sent for sent, _ in company], leaving, cancelled // 2)
        for name, output in outputs.items():
            if name == leaving and output.finish_reason == "abort":
                assert output.token_ids == alone[name].token_ids[: len(output.token_ids)]
            else:
                assert told(output) == told(alone[name])
        engine.pool.check_idle()
        assert engine.pool.used_count == 0


def run_alone(engine: Engine, request: Request) -> Output:
    return run_together(engine, [request], None, 0)[request.id]


def run_together(
    engine: Engine, sent: list[Request], leaving: str | None, after: int
) -> dict[str, Output]:
    """Run to the end; the request `leaving` is cancelled after some steps, if it still runs."""
    for request in sent:
        engine.add(request)
    outputs = {}
    while engine.has_work:
        if leaving is not None and after == 0:
            outputs[leaving] = engine.abort(leaving)
        after -= 1
        if engine.has_work:
            engine.step()
    rest = [request.id for request in sent if request.id not in outputs]
    return outputs | {name: engine.take(name) for name in rest}
