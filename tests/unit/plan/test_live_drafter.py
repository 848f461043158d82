"""What a drafter has to read before it drafts, and what the controller makes of it."""

from __future__ import annotations

import pytest

from paceline.plan.belief import Belief, Evidence, Prior
from paceline.plan.controller import Controller
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.decision import Candidate, Mode, Outcome, Step
from paceline.plan.forecast import DrafterOnPaper
from paceline.plan.live import LiveCosts, LiveDraftCosts
from paceline.plan.live_drafter import LiveDrafter
from paceline.plan.probing import ALLOWANCE_PASSES, SHARE

TARGET = CostCurve((1, 5, 8, 16, 32), (25, 31, 40, 75, 150))
MODEL = DraftCosts(passes=CostCurve((1,), (2,)))


def asked(context: int, name: str = "r", room: int = 50) -> Candidate:
    return Candidate(id=name, drafters=("model",), room=room, context_tokens=context)


def step_of(proposed: int, accepted: int) -> Step:
    return Step(rows=1 + proposed, pass_ms=25, outcomes=[Outcome("r", proposed, accepted)])


def test_it_knows_what_it_has_read() -> None:
    live = LiveDrafter(LiveDraftCosts(MODEL, LiveCosts(TARGET)), Belief(Evidence(40)))
    assert live.unread(asked(100)) == 100
    live.learn([asked(100)], step_of(4, 2), 208.0)
    assert live.unread(asked(103)) == 0
    assert live.unread(asked(110)) == 7
    assert live.reading_ms(asked(203)) == pytest.approx(200)
    # Of a budget of 8, 3 were proposed: 3 passes of 4 ms.
    live.learn([asked(103)], step_of(3, 3), 12.0)
    assert live.costs.now.ms([1]) == pytest.approx(4)


def test_what_a_drafter_must_read_first_counts_by_the_tokens_that_may_follow() -> None:
    """Reading 1,000 tokens takes 1.4 s, 56 plain passes: for a long answer alone."""
    policy = Controller(TARGET, {"model": DrafterOnPaper(MODEL, Prior(alpha=0.9))})

    def first(name: str, room: int) -> Mode:
        decision = policy.decide([asked(1000, name, room)])
        k = decision.shares[name].k if name in decision.shares else 0
        policy.observe(
            Step(
                rows=1 + k,
                pass_ms=TARGET.ms(1 + k),
                draft_ms={"model": 1400 + 2.0 * k} if k else {},
                outcomes=[Outcome(name, k, k)],
            )
        )
        return decision.mode

    assert first("any", 40) is Mode.MEASURE
    assert first("unknown", 40) is Mode.SPECULATE
    assert first("long", 1000) is Mode.SPECULATE
    assert first("short", 40) is Mode.PLAIN


def test_a_last_token_leaves_the_spell_as_it_is() -> None:
    """A request that ends has no room for a draft, which is no reason not to draft for the next."""
    policy = Controller(TARGET, {"model": DrafterOnPaper(MODEL, Prior(alpha=0.9))})

    def mode_of(room: int) -> Mode:
        decision = policy.decide([asked(0, room=room)])
        policy.observe(step_of(0, 0))
        return decision.mode

    modes = [mode_of(room) for room in (9, 8, 0, 9)]
    assert modes == [Mode.MEASURE, Mode.SPECULATE, Mode.PLAIN, Mode.SPECULATE]


def test_what_trials_that_read_lose_is_bounded_with_all_their_passes() -> None:
    """Nothing stands, and every 40 passes there is another text, which takes 100 ms to read."""
    costs = DraftCosts(passes=CostCurve((1,), (20,)))
    policy = Controller(TARGET, {"model": DrafterOnPaper(costs)})
    ratios, read = list[float](), set[str]()
    for number in range(4000):
        name = f"r{number // 40}"
        decision = policy.decide([asked(100 + number % 40, name, room=1000)])
        k = decision.shares[name].k if name in decision.shares else 0
        draft_ms = 20.0 * k + 100 * (name not in read) if k else 0.0
        read |= {name} if k else set()
        policy.observe(
            Step(
                rows=1 + k,
                pass_ms=TARGET.ms(1 + k),
                draft_ms={"model": draft_ms} if k else {},
                outcomes=[Outcome(name, k, 0)],
            )
        )
        prober = policy.prober
        ratios.append(prober.lost_ms / (ALLOWANCE_PASSES * 25 + SHARE * prober.elapsed_ms))
    assert 0.5 < max(ratios) <= 1


def test_a_trial_is_the_request_s_with_most_left_unless_it_must_be_read_for_long() -> None:
    policy = Controller(TARGET, {"model": DrafterOnPaper(MODEL)})
    live = policy.forecast.drafters["model"]
    requests = [asked(100, "near its end", 20), asked(100, "young", 60)]
    now = policy.forecast.round(requests, 0)

    def tried() -> set[str]:
        trial = policy.forecast.trial(now, now.plain, "model", thorough=False)
        assert trial
        return set(trial.shares)

    live.read["near its end"] = 100
    assert tried() == {"young"}
    live.learn([asked(500, "r")], step_of(1, 1), 1002.0)
    assert live.reading_ms(requests[1]) > TARGET.ms(1)
    assert tried() == {"near its end"}


def test_weights_are_by_what_is_left() -> None:
    policy = Controller(TARGET, {"model": DrafterOnPaper(MODEL)})

    def weights(*rooms: int) -> list[float]:
        requests = [asked(100, f"r{i}", room) for i, room in enumerate(rooms)]
        return list(policy.forecast.round(requests, 0).weights)

    assert weights(7) == [1.0]
    assert weights(22, 20, 18) == pytest.approx([1.30, 0.98, 0.71], abs=0.01)
    assert weights(1000, 500, 10) == [2.0, 0.5, 0.5]
