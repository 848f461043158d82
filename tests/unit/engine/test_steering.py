"""The controller at the wheel of a real engine: text, pins, ceilings, reasons, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from paceline.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculationConfig
from paceline.drafters import DraftContext, PerContext, register
from paceline.engine import LLM, Engine
from paceline.engine.steering import Steering, steer
from paceline.errors import ConfigError, RequestError
from paceline.plan.decision import Candidate, Decision, Mode, Share
from paceline.tree import Draft, PointMass
from paceline.types import Output, Request, SamplingParams, Speculation, StepStats
from tests.engines import TARGET, expected, request, run

SETTINGS = [{"temperature": 0.0}, {"temperature": 1.3, "seed": 5, "top_p": 0.9}]
each_setting = pytest.mark.parametrize("settings", SETTINGS, ids=["greedy", "coupled"])
PROMPTS = ["abc", "abcabcabcabcabcabc", "f", "deadbeef", "fedcba"]


@register("test_hostile")
@dataclass(frozen=True)
class Hostile(PerContext):
    """Proposes what the target surely does not choose."""

    k: int = 4

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        worst = int(TARGET.logits(list(ctx.tokens)).argmin())
        return Draft.chain(PointMass(worst) for _ in range(budget))


def automatic(*drafts: str, **settings: Any) -> Engine:
    blocks, target = settings.pop("blocks", 64), settings.pop("target", TARGET)
    speculation = {name: settings.pop(name) for name in ("max_k", "k") if name in settings}
    config = EngineConfig(
        cache=CacheConfig(num_blocks=blocks, block_tokens=4),
        scheduler=SchedulerConfig(**{"max_rows": 32, **settings}),
        speculation=SpeculationConfig(**{"drafts": drafts, "k": "auto", **speculation}),
    )
    return Engine(target, config)  # type: ignore[arg-type]


def watched(engine: Engine) -> list[StepStats]:
    stats: list[StepStats] = []
    engine.listeners.append(stats.append)
    return stats


def alternate(*names: str) -> Callable[[Any, int], Decision]:
    """Another drafter, and another length, for every request in every step."""
    step = 0

    def budget_for(requests: list[Candidate], prefill_rows: int) -> Decision:
        nonlocal step
        step += 1
        shares = {
            one.id: Share(names[(step + place) % len(names)], (step * 7 + place) % 5)
            for place, one in enumerate(requests)
        }
        return Decision(shares=shares, mode=Mode.SPECULATE, reason="speculate: by turns")

    return budget_for


@each_setting
@pytest.mark.parametrize(("blocks", "max_rows"), [(64, 32), (17, 32), (17, 6)])
def test_text_is_that_of_plain_decoding_whoever_drafts(
    settings: dict[str, Any], blocks: int, max_rows: int
) -> None:
    """Drafters that take turns within a request, in a batch, with preemption and short passes."""
    engine = automatic("test_forest", "test_sampler", "ngram", blocks=blocks, max_rows=max_rows)
    engine.budget_for = alternate("test_forest", "test_sampler", "ngram")
    stats = watched(engine)
    params = SamplingParams(**{"max_tokens": 30, **settings})
    asked = [request(str(i), p, max_tokens=30, **settings) for i, p in enumerate(PROMPTS)]
    for prompt, output in zip(PROMPTS, run(engine, *asked), strict=True):
        assert list(output.token_ids) == expected(prompt, params)
    used = {one.drafter for step in stats for one in step.drafts if one.accepted}
    assert used == {"test_forest", "test_sampler", "ngram"}
    assert (sum(step.preempted for step in stats) > 0) == (blocks < 64)


@each_setting
def test_a_draft_model_that_takes_turns_finds_its_cache_as_it_should(
    settings: dict[str, Any],
) -> None:
    """It misses some steps, whose tokens another drafted; acceptance of its own drafts must not
    suffer: the target itself drafts here, so greedily all of its tokens stand.
    """
    llm = LLM("mini", draft=("model:mini", "ngram"), k="auto", max_num_requests=3)
    stats = watched(llm.engine)
    llm.engine.budget_for = alternate("model:mini", "ngram")
    params = SamplingParams(max_tokens=40, ignore_eos=True, **settings)
    texts = ["def add(a, b):\n", "for i in range(10):\n    print(i)\nfor i", "x = 1\ny"]
    drafted = llm.generate(texts, params)
    plain = llm.generate(texts, params, speculation=Speculation(k=0))
    assert [o.token_ids for o in drafted] == [o.token_ids for o in plain]
    own = [one for step in stats for one in step.drafts if one.drafter == "model:mini"]
    assert sum(one.budget for one in own) > 40
    assert all(one.accepted == one.proposed for one in own[:-3])


@each_setting
def test_the_controller_touches_no_text(settings: dict[str, Any]) -> None:
    engine = automatic("test_hostile", "test_sampler", blocks=24)
    steer(engine)
    params = SamplingParams(**{"max_tokens": 30, **settings})
    asked = [request(str(i), p, max_tokens=30, **settings) for i, p in enumerate(PROMPTS)]
    for prompt, output in zip(PROMPTS, run(engine, *asked), strict=True):
        assert list(output.token_ids) == expected(prompt, params)


def test_every_step_says_what_it_was_for_and_what_each_request_made_of_it() -> None:
    engine = automatic("test_sampler", "test_hostile")
    steering = steer(engine)
    stats = watched(engine)
    run(engine, *(request(str(i), max_tokens=40, ignore_eos=True) for i in range(3)))
    decoding = [step for step in stats if step.drafts]
    assert {step.reason.partition(":")[0] for step in decoding} == {s.mode for s in decoding}
    assert decoding[0].reason == "measure: to know what drafts must beat"
    for step in decoding:
        assert sum(one.proposed for one in step.drafts) == step.proposed
        assert sum(one.accepted for one in step.drafts) == step.accepted
        assert all(one.proposed <= one.budget for one in step.drafts)
        assert set(step.draft_ms) == {one.drafter for one in step.drafts if one.budget}
        assert step.pass_ms == pytest.approx(step.step_ms - sum(step.draft_ms.values()))
    ended = [request_id for step in stats for request_id in step.ended]
    assert sorted(ended) == ["0", "1", "2"]
    assert steering.controller.forecast.known_requests == 0


def test_an_output_tells_the_mean_of_what_was_predicted_for_its_passes() -> None:
    """1.5 and 2.5 by turns; a pass in which nothing might be drafted counts 1."""
    engine = automatic("test_hostile")
    stats, predicted = watched(engine), list[float]()

    def budget_for(requests: list[Candidate], prefill_rows: int) -> Decision:
        speedup = 1.5 + len(stats) % 2
        (one,) = requests
        predicted.append(speedup if one.room else 1.0)
        shares = {one.id: Share("test_hostile", 2, speedup)}
        return Decision(shares=shares, mode=Mode.SPECULATE, reason="", speedup=speedup)

    engine.budget_for = budget_for  # type: ignore[assignment]
    output = only(run(engine, request("a", max_tokens=12, ignore_eos=True)))
    assert output.counts.passes == len(predicted) == 11
    assert predicted[-1] == 1.0
    assert output.counts.estimated_speedup == pytest.approx(sum(predicted) / 11)
    assert {step.speedup for step in stats if step.drafts} == {1.5, 2.5}


def test_what_nobody_predicted_is_not_told() -> None:
    engine = automatic("test_hostile")
    steer(engine)
    asked = {"max_tokens": 12, "ignore_eos": True}
    pinned = only(run(engine, request("a", speculation=Speculation(k=2), **asked)))
    assert pinned.counts.estimated_speedup is None
    plain = only(run(engine, request("b", speculation=Speculation(k=0), **asked)))
    assert plain.counts.estimated_speedup == 1.0
    short = only(run(engine, request("c", max_tokens=1)))
    assert (short.counts.passes, short.counts.estimated_speedup) == (0, None)


def test_an_aborted_request_is_forgotten() -> None:
    engine = automatic("test_sampler")
    steering = steer(engine)
    for name in ("one", "two"):
        engine.add(request(name, max_tokens=40, ignore_eos=True))
    for _ in range(6):
        engine.step()
    assert steering.controller.forecast.known_requests == 2
    engine.abort("one")
    engine.step()
    assert steering.controller.forecast.known_requests == 1
    engine.abort("two")
    engine.pool.check_idle()


def only(outputs: list[Output]) -> Output:
    (output,) = outputs
    return output


def test_a_request_pins_drafter_length_and_off() -> None:
    engine = automatic("test_hostile", "test_sampler")
    steer(engine)
    stats = watched(engine)

    def drafts_of(speculation: Speculation) -> set[tuple[str, int]]:
        stats.clear()
        run(engine, request("r", speculation=speculation, max_tokens=30, ignore_eos=True))
        return {(one.drafter, one.budget) for s in stats for one in s.drafts[:1]}

    assert drafts_of(Speculation(k=0)) == {("", 0)}
    assert drafts_of(Speculation(drafter="none")) == {("", 0)}
    fixed = drafts_of(Speculation(k=3, drafter="test_sampler"))
    assert {("test_sampler", 3)} <= fixed <= {("test_sampler", k) for k in (1, 2, 3)} | {("", 0)}
    assert {name for name, _ in drafts_of(Speculation(k=2))} - {""} == {"test_hostile"}
    automatic_ = drafts_of(Speculation(k="auto", drafter="test_sampler"))
    assert {name for name, _ in automatic_} <= {"", "test_sampler"}


def test_an_operator_caps_what_may_be_drafted_whatever_is_asked() -> None:
    engine = automatic("test_sampler", max_k=((1, 3), (2, 1)))
    steer(engine)
    stats = watched(engine)
    asked = Speculation(k=9)
    run(engine, *(request(n, speculation=asked, max_tokens=m) for n, m in (("a", 12), ("b", 30))))
    for step in stats:
        cap = 3 if len(step.drafts) < 2 else 1
        assert all(one.budget <= cap for one in step.drafts)
    assert max(one.budget for step in stats for one in step.drafts) == 3
    with pytest.raises(ConfigError, match="pairs of requests and tokens"):
        SpeculationConfig(max_k=((1,),))


def test_length_is_a_number_or_auto() -> None:
    with pytest.raises(RequestError, match="k must be a number or 'auto', not 'most'"):
        Speculation(k="most")
    with pytest.raises(ConfigError, match="k must be a number or 'auto', not 'most'"):
        SpeculationConfig(k="most")


def test_a_seed_under_a_rule_that_samples_fixes_drafter_and_length() -> None:
    """The text depends on both there, so a controller that follows the clock must not choose."""
    engine = automatic("test_sampler", "test_hostile")
    steer(engine)
    stats = watched(engine)
    asked = Speculation(rule="block")
    run(engine, request("r", speculation=asked, temperature=1.0, seed=4, ignore_eos=True))
    assert {one.drafter for s in stats for one in s.drafts} <= {"test_sampler", ""}
    assert {s.mode for s in stats if s.drafts} == {Mode.PINNED}


def test_a_rule_for_chains_leaves_out_what_drafts_trees() -> None:
    engine = automatic("test_forest", "test_sampler")
    steer(engine)
    stats = watched(engine)
    asked = Speculation(rule="token")
    output = only(run(engine, request("r", speculation=asked, temperature=1.0, max_tokens=60)))
    assert output.rule == "token"
    assert {one.drafter for s in stats for one in s.drafts} <= {"test_sampler", ""}


def test_a_thousand_plain_steps_leave_nothing_behind() -> None:
    """k = 0 is plain decoding: no drafter is asked but for probes, and no state grows."""
    engine = automatic("test_hostile", target=replace(TARGET, max_model_len=1100), blocks=280)
    steering = steer(engine)
    stats = watched(engine)
    engine.add(request("r", max_tokens=1090, ignore_eos=True, temperature=0.0))
    sizes = list[tuple[int, ...]]()
    while engine.has_work:
        engine.step()
        forecast = steering.controller.forecast
        sizes.append((len(forecast._beliefs), len(forecast._choice), len(engine._step.ended)))
    drafted = [step for step in stats if step.proposed]
    assert len(stats) >= 1000
    assert len(drafted) <= 0.1 * len(stats)
    assert set(sizes[100:-1]) == {(1, 1, 0)}
    assert (len(forecast._beliefs), len(forecast._choice)) == (0, 0)


def test_without_a_controller_auto_is_the_drafters_own_length() -> None:
    engine = automatic("test_sampler")
    stats = watched(engine)
    run(engine, request("r", max_tokens=20, ignore_eos=True))
    assert max(one.budget for step in stats for one in step.drafts) == 3


def test_steering_speaks_the_controllers_language() -> None:
    """A draft that found no room in the cache tells nothing of the drafter."""
    heard = list[Any]()

    class Ear:
        def observe(self, step: Any) -> None:
            heard.append(step)

        def forget(self, request_id: str) -> None:
            heard.append(request_id)

    stats = watched(engine := automatic("test_sampler"))
    run(engine, Request(id="r", prompt_ids=(1, 2), params=SamplingParams(max_tokens=4)))
    steering = Steering(Ear())  # type: ignore[arg-type]
    for step in stats:
        steering.observe(step)
    assert heard[-1] == "r"
    steps = [one for one in heard if not isinstance(one, str)]
    assert [s.rows for s in steps] == [s.verify_rows for s in stats if s.drafts]
    assert sum(o.accepted for s in steps for o in s.outcomes) == sum(s.accepted for s in stats)
