"""What every registered drafter must hold: exact text, budget, batching, preemption, abort."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from paceline.drafters import Drafter, drafters
from paceline.engine import LLM
from paceline.engine.engine import parse_drafter
from paceline.types import Output, SamplingParams, Speculation
from tests.conftest import PROMPTS

ARGUMENTS = {"model": ":mini-draft"}
NAMES = tuple(name + ARGUMENTS.get(name, "") for name in drafters)

GREEDY = SamplingParams(temperature=0, max_tokens=24)
SEEDED = SamplingParams(temperature=0.9, top_p=0.95, seed=11, max_tokens=24)


@pytest.fixture(scope="session")
def every() -> LLM:
    return LLM("mini", draft=NAMES)


def ids(outputs: Sequence[Output]) -> list[tuple[int, ...]]:
    return [output.token_ids for output in outputs]


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_that_of_plain_decoding(every: LLM, name: str, params: SamplingParams) -> None:
    plain = every.generate(PROMPTS, params, speculation=Speculation(k=0))
    for k in (1, 3, 7):
        drafted = every.generate(PROMPTS, params, speculation=Speculation(drafter=name, k=k))
        assert ids(drafted) == ids(plain)
        assert [o.text for o in drafted] == [o.text for o in plain]
        assert [o.finish_reason for o in drafted] == [o.finish_reason for o in plain]
        assert all(o.counts.proposed <= k * o.counts.passes for o in drafted)
        assert all(len(o.counts.reached) <= k for o in drafted)
    every.engine.pool.check_idle()


def test_requests_of_one_batch_may_draft_each_in_their_own_way(every: LLM) -> None:
    """Every drafter, k, rule and setting in one batch; each text as if it ran alone and plain."""
    cases = [
        (prompt, params, Speculation(drafter=name, k=k))
        for (prompt, params), name, k in zip(
            [(p, s) for s in (GREEDY, SEEDED) for p in PROMPTS],
            [*NAMES, *NAMES, *NAMES],
            [1, 2, 3, 4, 5, 6, 1, 2, 3, 4],
            strict=False,
        )
    ]
    streams = [every.stream(p, s, speculation=speculation) for p, s, speculation in cases]
    together = [stream.finish() for stream in streams]
    alone = [every.generate(p, s, speculation=Speculation(k=0))[0] for p, s, _ in cases]
    assert ids(together) == ids(alone)
    every.engine.pool.check_idle()


@pytest.mark.parametrize("name", NAMES)
def test_a_sampled_rule_gives_the_same_text_alone_and_among_others(every: LLM, name: str) -> None:
    options: Drafter = parse_drafter(name)
    rule = "multi" if options.needs.trees else "block"
    speculation = Speculation(drafter=name, rule=rule)
    alone = [every.generate(p, SEEDED, speculation=speculation)[0] for p in PROMPTS]
    together = every.generate(PROMPTS, SEEDED, speculation=speculation)
    assert ids(together) == ids(alone)


@pytest.mark.parametrize("name", NAMES)
def test_preemption_changes_no_text(build: Callable[..., LLM], every: LLM, name: str) -> None:
    """Sixteen blocks of four tokens hold a context, but not five: requests are preempted."""
    tight = build(name, blocks=24, max_model_len=96)
    preempted = 0

    def listen(stats: object) -> None:
        nonlocal preempted
        preempted += stats.preempted  # type: ignore[attr-defined]

    tight.engine.listeners.append(listen)
    for params in (GREEDY, SEEDED):
        outputs = tight.generate(PROMPTS, params)
        assert ids(outputs) == ids(every.generate(PROMPTS, params, speculation=Speculation(k=0)))
    assert preempted > 0
    tight.engine.pool.check_idle()


@pytest.mark.parametrize("name", NAMES)
def test_abort_frees_the_blocks_and_disturbs_no_one(every: LLM, name: str) -> None:
    speculation = Speculation(drafter=name)
    wanted = every.generate(PROMPTS[0], SEEDED, speculation=Speculation(k=0))[0]
    kept = every.stream(PROMPTS[0], SEEDED, speculation=speculation)
    left = every.stream(PROMPTS[1], SEEDED, speculation=speculation)
    for _ in zip(range(3), left, strict=False):
        pass
    left.close()
    assert left.output is not None
    assert left.output.finish_reason == "abort"
    assert kept.finish().token_ids == wanted.token_ids
    every.engine.pool.check_idle()


@pytest.mark.parametrize("name", NAMES)
def test_how_far_a_drafter_goes_does_not_depend_on_what_it_draws(every: LLM, name: str) -> None:
    """The discard rule, as far as it shows from outside: drafts that are sampled have one length
    whatever the seed, after the same context.
    """
    if parse_drafter(name).needs.trees:
        assert name == "suffix", "a sampled tree drafter needs a stronger test than this one"
        return
    lengths = set()
    for seed in range(8):
        params = SamplingParams(temperature=1.0, seed=seed, max_tokens=6)
        speculation = Speculation(drafter=name, rule="token", k=4)
        stream = every.stream(PROMPTS[0], params, speculation=speculation)
        sequence = next(iter(every.engine._scheduler))
        iterator = iter(stream)
        next(iterator)
        before = sequence.tally.proposed
        next(iterator)
        lengths.add(sequence.tally.proposed - before)
        stream.close()
    assert len(lengths) == 1 or name in {"ngram"}
