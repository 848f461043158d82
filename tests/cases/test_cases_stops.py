"""Sections E and F of what users reported of other engines: ends inside an accepted block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from paceline.engine import Engine
from paceline.types import Output
from tests.engines import run
from tests.habits import DRAFTERS, HABIT, MODELS, alone, ask, habits

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 24}
FREE = {**GREEDY, "ignore_eos": True}
KINDS: tuple[dict[str, Any], ...] = (FREE, {**FREE, "temperature": 1.0, "seed": 2})
every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)


def letters(tokens: list[int]) -> str:
    return HABIT.tokenizer.decode(tokens)


@every_drafter
def test_eos_mid_block(drafter: str) -> None:
    """transformers 47912: an end of text accepted inside a block did not end it; any stop does."""
    full = alone("b", **FREE)
    accepted = 0
    for stop in dict.fromkeys(full[1:12]):
        end = full.index(stop) + 1
        ended = habits(drafter, target=replace(HABIT, eos_ids=frozenset({stop})))
        usual = habits(drafter)
        for engine, settings in (
            (ended, GREEDY),
            (usual, {**FREE, "stop_token_ids": (stop,)}),
            (usual, {**FREE, "stop": (letters([stop]),)}),
        ):
            (output,) = run(engine, ask("r", "b", drafter, **settings))
            assert list(output.token_ids) == full[:end]
            assert output.finish_reason == "stop"
            accepted += output.counts.accepted
    assert accepted > 0 or drafter.startswith("ngram"), "short texts hold no n-gram twice"


def stops(full: list[int], at: int) -> Iterator[dict[str, Any]]:
    """Settings that stop at full[at], which is new there."""
    yield {"stop_token_ids": (full[at],)}
    yield {"stop": (letters(full[at : at + 1]),)}
    yield {"stop": (letters(full[at - 1 : at + 1]), "zz")}


@every_drafter
def test_stop_beats_cap(habit: Engine, drafter: str) -> None:
    """sglang 31599: a stop and the cap in one block: the nearer one counts, a tie is a stop."""
    full = alone("b", **FREE)
    at = next(at for at in range(3, 12) if full[at] not in full[:at])
    for stop in stops(full, at):
        for cap in range(at - 1, at + 4):
            settings = {**FREE, **stop, "max_tokens": cap, "k": 6}
            (output,) = run(habit, ask("r", "b", drafter, **settings))
            assert output.finish_reason == ("length" if cap <= at else "stop")
            assert list(output.token_ids) == full[: min(cap, at + 1)]


@every_drafter
def test_stop_string_trims_all(habit: Engine, drafter: str) -> None:
    """vLLM 47616: the text was cut at a stop string, ids and log-probabilities were not."""
    full = alone("b", **FREE)
    for at in range(2, 10):
        word = letters(full[at : at + 3])
        end = letters(full).index(word)
        settings = {**FREE, "stop": (word,), "logprobs": 2, "drafter": drafter}
        (output,) = run(habit, ask("r", "b", **settings))
        assert output.text == letters(full[:end])
        assert list(output.token_ids) == full[: end + 3]
        assert output.logprobs is not None
        assert [entry.token for entry in output.logprobs] == full[: end + 3]
        assert output.counts.committed == end + 2


@every_drafter
@pytest.mark.parametrize("settings", KINDS, ids=["greedy", "coupled"])
def test_stop_transactional(drafter: str, settings: dict[str, Any]) -> None:
    """onnxruntime-genai 2528: all is as if the block had ended with the completing token.

    So the request that goes on from there finds a cache that is true, and the same draws.
    """
    full = alone("b", **settings)
    for at in (4, 6, 9):
        engine = habits(drafter)
        word = letters(full[at : at + 2])
        end = letters(full).index(word) + 2
        (cut,) = run(engine, ask("r", "b", drafter, **settings, stop=(word,)))
        assert list(cut.token_ids) == full[:end]
        assert cut.counts.committed == end - 1
        assert cut.counts.accepted <= end - 1
        prompt = "b" + letters(full[:end])
        onward = {**settings, "max_tokens": 24 - end}
        (rest,) = run(engine, ask("r", prompt, drafter, **onward))
        assert rest.cached_tokens >= (end - 4) // 4 * 4
        assert list(rest.token_ids) == alone(prompt, **onward)


def to_the_end(drafter: str, prompt: str, **settings: Any) -> Output:
    settings = {**settings, "max_tokens": 99}
    (output,) = run(habits(drafter), ask("r", prompt, drafter, **settings, k=5))
    assert list(output.token_ids) == alone(prompt, **settings)
    return output


@every_drafter
@pytest.mark.parametrize("settings", KINDS, ids=["greedy", "coupled"])
def test_maxlen_edge(drafter: str, settings: dict[str, Any]) -> None:
    """exllamav2 274: a draft of five with four tokens of context left tripped an assertion."""
    context = HABIT.max_model_len
    for left in (1, 2, 4, 6):
        output = to_the_end(drafter, ("abcdef" * 11)[: context - left], **settings)
        assert len(output.token_ids) == left
        assert output.finish_reason == "length"


@every_drafter
def test_maxlen_warm(drafter: str) -> None:
    """lorax 474: a request that ran to the last position took the engine with it."""
    engine = habits(drafter)
    wanted = alone("b", **{**FREE, "max_tokens": 99})
    for name in ("cold", "warm"):
        sent = ask(name, "b", drafter, **{**FREE, "max_tokens": 99})
        (output,) = run(engine, sent)
        assert list(output.token_ids) == wanted
        assert len(output.token_ids) == HABIT.max_model_len - 1
        assert output.finish_reason == "length"


def test_draft_ctx_shorter() -> None:
    """vLLM 57941: a draft of a shorter context was read past its end."""
    engine = habits("model:short")
    long, short = "abcdefgh" * 4, "b"
    sent = [ask(word, word, "model:short", **FREE) for word in (long, short)]
    outputs = run(engine, *sent)
    assert [list(o.token_ids) for o in outputs] == [alone(word, **FREE) for word in (long, short)]
    assert outputs[0].counts.proposed == 0
    assert outputs[1].counts.accepted > 0


def test_long_ctx_falls_back() -> None:
    """sglang 6783: past the draft's context it was slower than plain decoding; then it is plain."""
    draft = MODELS["short"]
    engine = habits("model:short")
    engine.add(ask("r", "b", "model:short", **FREE))
    rows = []
    engine.listeners.append(lambda stats: rows.append(stats.verify_rows))
    while engine.has_work:
        before = len(draft.passes)
        (delta,) = engine.step()
        sequence = engine._sequences["r"]
        if len(sequence.tokens) - len(delta.token_ids) > draft.max_model_len:
            assert len(draft.passes) == before
            assert rows[-1] == len(delta.token_ids) == 1
    assert len(engine.take("r").token_ids) == 24
