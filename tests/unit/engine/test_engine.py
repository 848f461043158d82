"""The step's bookkeeping on a model whose text depends on every slot it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.drafters import drafters
from paceline.errors import ConfigError, RequestError, UnknownNameError
from paceline.types import SamplingParams, Speculation
from tests.engines import TARGET, engine, expected, request, run
from tests.oracle import Oracle

GREEDY = {"temperature": 0.0}
SEEDED = {"temperature": 1.3, "seed": 5, "top_p": 0.9}


@pytest.mark.parametrize("settings", [GREEDY, SEEDED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("drafter", ["none", "test_forest", "test_sampler"])
def test_the_text_is_that_of_plain_decoding(drafter: str, settings: dict[str, Any]) -> None:
    prompts = ["abc", "abcabcabcabcabcabc", "f", "deadbeef"]
    ours = run(
        engine(drafter),
        *(request(str(i), p, **settings) for i, p in enumerate(prompts)),
    )
    for prompt, output in zip(prompts, ours, strict=True):
        params = SamplingParams(**{"max_tokens": 20, **settings})
        assert list(output.token_ids) == expected(prompt, params)
        if drafter != "none":
            assert output.counts.accepted > 0


@pytest.mark.parametrize("drafter", ["none", "test_forest", "test_sampler"])
@pytest.mark.parametrize(("blocks", "max_rows"), [(16, 32), (17, 20), (64, 5), (64, 1)])
def test_chunks_and_preemption_change_no_text(drafter: str, blocks: int, max_rows: int) -> None:
    prompts = ["abcdefabcdefabcdefabcdef", "fedcba", "aaaaaaaaaaaaa", "b"]
    preempted, rows = list[int](), list[int]()
    tight = engine(drafter, blocks=blocks, max_rows=max_rows, max_num_requests=3)
    tight.listeners.append(lambda stats: preempted.append(stats.preempted))
    tight.listeners.append(lambda stats: rows.append(stats.prefill_rows + stats.verify_rows))
    for settings in (GREEDY, SEEDED):
        requests = [request(str(i), p, max_tokens=30, **settings) for i, p in enumerate(prompts)]
        for prompt, output in zip(prompts, run(tight, *requests), strict=True):
            params = SamplingParams(**{"max_tokens": 30, **settings})
            assert list(output.token_ids) == expected(prompt, params)
    assert max(rows) <= max_rows
    assert (sum(preempted) > 0) == (blocks < 64)


def test_a_prefix_is_computed_once_with_and_without_a_drafter() -> None:
    hits = {}
    for drafter in ("none", "test_forest", "test_sampler"):
        engine_ = engine(drafter)
        long = "abcdefabcdefabc"
        first, second = (run(engine_, request(name, long, **GREEDY))[0] for name in ("one", "two"))
        (third,) = run(engine_, request("three", long + "ffff", **GREEDY))
        text = TARGET.tokenizer.decode(first.token_ids)
        (fourth,) = run(engine_, request("four", long + text + "a", **GREEDY))
        assert first.token_ids == second.token_ids
        hits[drafter] = [o.cached_tokens for o in (first, second, third, fourth)]
    assert hits["none"] == [0, 12, 12, 32]
    assert hits["test_forest"] == hits["test_sampler"] == hits["none"]


def test_the_context_ends_a_request_at_its_last_token() -> None:
    small = replace(TARGET, max_model_len=12)
    for drafter in ("none", "test_forest", "test_sampler"):
        sent = request("r", "abcdef", max_tokens=99, **GREEDY)
        (output,) = run(engine(drafter, target=small), sent)
        assert len(output.token_ids) == 6
        assert output.finish_reason == "length"
        params = SamplingParams(temperature=0, max_tokens=99)
        assert list(output.token_ids) == expected("abcdef", params, small)


@pytest.mark.parametrize("drafter", ["none", "test_forest", "test_sampler"])
def test_a_stop_inside_a_block_cuts_ids_text_and_counts_at_one_token(drafter: str) -> None:
    """C:eos_mid_block, C:stop_beats_cap, C:stop_string_trims_all."""
    full = expected("abc", SamplingParams(temperature=0, max_tokens=20))
    letters = TARGET.tokenizer.decode(full)
    for end in range(1, 12):
        stop = full[end]
        first, pair = full.index(stop), letters[end - 1 : end + 1]
        cases: list[tuple[Oracle, dict[str, Any], str]] = [
            (replace(TARGET, eos_ids=frozenset({stop})), {}, letters[: first + 1]),
            (TARGET, {"stop_token_ids": (stop,)}, letters[: first + 1]),
            (TARGET, {"stop": (letters[end],)}, letters[:first]),
            (TARGET, {"stop": (pair,)}, letters[: letters.index(pair)]),
        ]
        for target, settings, text in cases:
            (output,) = run(engine(drafter, target=target), request("r", **GREEDY, **settings))
            assert output.finish_reason == "stop"
            assert output.text == text
            assert len(output.token_ids) == len(text) + len(settings.get("stop", ("",))[0])
            assert output.counts.committed == len(output.token_ids) - 1


@pytest.mark.parametrize("drafter", ["none", "test_forest", "test_sampler"])
def test_a_stop_at_the_cap_is_a_stop_and_one_beyond_it_is_not(drafter: str) -> None:
    """C:stop_beats_cap."""
    full = expected("abc", SamplingParams(temperature=0, max_tokens=20))
    stop = next(token for token in full if token != full[0])
    at = full.index(stop)
    for max_tokens, reason in ((at + 1, "stop"), (at, "length")):
        settings = {**GREEDY, "stop_token_ids": (stop,), "max_tokens": max_tokens}
        (output,) = run(engine(drafter), request("r", **settings))
        assert output.finish_reason == reason
        assert list(output.token_ids) == full[:max_tokens]


def test_counters_count_the_prefix_that_was_accepted() -> None:
    engine_ = engine("test_sampler")
    (output,) = run(engine_, request("r", temperature=1.0, seed=3, max_tokens=40))
    counts = output.counts
    assert counts.committed == len(output.token_ids) - 1
    assert counts.accepted == sum(counts.survived)
    assert all(s <= r for s, r in zip(counts.survived, counts.reached, strict=True))
    assert all(a >= b for a, b in zip(counts.survived, counts.reached[1:], strict=False))
    assert 0 < counts.acceptance_rate <= 1
    assert counts.mean_committed_per_pass == counts.committed / counts.passes


def test_an_aborted_request_leaves_at_once() -> None:
    engine_ = engine("test_forest")
    engine_.add(request("stays", **GREEDY))
    engine_.add(request("goes", "abcdefgh"[:6], **GREEDY))
    engine_.add(request("never_ran", **GREEDY))
    engine_.step()
    engine_.step()
    assert engine_.abort("goes").finish_reason == "abort"
    assert engine_.abort("never_ran").finish_reason == "abort"
    while engine_.has_work:
        engine_.step()
    params = SamplingParams(temperature=0, max_tokens=20)
    assert list(engine_.take("stays").token_ids) == expected("abc", params)
    engine_.pool.check_idle()
    with pytest.raises(UnknownNameError, match="'goes'"):
        engine_.abort("goes")


def test_a_drafter_that_breaks_its_budget_ends_the_step_and_leaves_the_pool_idle() -> None:
    engine_ = engine("test_greedless")
    engine_.add(request("r", **GREEDY))
    engine_.step()
    with pytest.raises(ConfigError, match="'test_greedless' proposed 3 tokens on a budget of 2"):
        engine_.step()
    assert not engine_.has_work
    engine_.pool.check_idle()


def test_no_growth_over_a_thousand_passes_without_drafts() -> None:
    """C:no_growth_when_off: what is kept per request is gone with it."""
    engine_ = engine("test_forest", target=replace(TARGET, max_model_len=48))
    for name in range(25):
        run(engine_, request(str(name), max_tokens=40, speculation=Speculation(k=0), **GREEDY))
    assert engine_._sequences == {}
    assert len(engine_.pool._by_digest) <= engine_.pool.num_blocks


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": "a" * 64}, "prompt has 64 tokens.*context holds 64.*63 or fewer"),
        ({"prompt": "z"}, "prompt id is not in 0 .. 5"),
        ({"speculation": Speculation(drafter="nope")}, "Unknown loaded drafter 'nope'"),
        ({"speculation": Speculation(rule="nope")}, "Unknown rule 'nope'"),
        ({"speculation": Speculation(rule="greedy")}, "'greedy' is exact at temperature 0 only"),
        ({"speculation": Speculation(rule="block")}, "'block' verifies chains"),
    ],
)
def test_a_request_that_cannot_run_is_refused(bad: dict[str, Any], message: str) -> None:
    engine_ = engine("test_forest")
    with pytest.raises((RequestError, ConfigError), match=message):
        engine_.add(request("r", **bad))
    assert not engine_.has_work


def test_two_requests_of_one_id_are_refused() -> None:
    engine_ = engine()
    engine_.add(request("r"))
    with pytest.raises(RequestError, match="'r' is running already"):
        engine_.add(request("r"))


def test_unseeded_requests_are_independent() -> None:
    """C:unseeded_independent: 20 tokens of 6 letters do not repeat by chance."""
    engine_ = engine("test_sampler")
    outputs = run(engine_, *(request(str(i), temperature=2.0) for i in range(6)))
    assert len({o.token_ids for o in outputs}) == 6


def test_the_pool_must_hold_one_context() -> None:
    with pytest.raises(ConfigError, match="holds 60 tokens, fewer than one context of 64"):
        engine(blocks=15, max_model_len=64)
    with pytest.raises(ConfigError, match="max_model_len must be 1 to 64"):
        engine(max_model_len=65)


def test_the_registry_of_drafters_knows_the_tests_own() -> None:
    assert {"test_forest", "test_sampler", "test_greedless"} <= set(drafters)
