"""The controller, step by step."""

from __future__ import annotations

import pytest

from paceline.errors import ConfigError
from paceline.plan.belief import Prior
from paceline.plan.controller import CLOSE_GAP, DWELL, MEASURE_GAP, Controller
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.decision import Candidate, Limits, Mode, Outcome, Share, Step
from paceline.plan.forecast import DrafterOnPaper

TARGET = CostCurve((1, 5, 8, 16, 32), (25, 31, 40, 75, 150))
"""A CPU's passes: 1.25 of one row's at 5 rows, 3 at 16."""
GUESS = CostCurve((1, 16, 64), (20, 30, 100))
"""What the controller is told of them, wrongly."""
DRAFTS = {
    "costly": DraftCosts(passes=CostCurve((1, 5, 8, 16), (8, 9, 10, 15))),
    "cheap": DraftCosts(request_ms=0.05),
}


def controller(*names, limits=None, target=GUESS):
    papers = {name: DrafterOnPaper(DRAFTS[name]) for name in names}
    return Controller(target, papers, limits, guessed=target is GUESS)


def ask(policy, batch=1, **candidate):
    defaults = {"drafters": ("cheap",), "room": 50}
    return policy.decide([Candidate(id=f"r{i}", **(defaults | candidate)) for i in range(batch)])


def report_back(policy, decision, accepted, pass_ms=25.0):
    outcomes = [Outcome(r, share.k, min(accepted, share.k)) for r, share in decision.shares.items()]
    rows = 1 + sum(share.k for share in decision.shares.values())
    policy.observe(Step(rows=rows, pass_ms=pass_ms, draft_ms={}, outcomes=outcomes))


def test_the_first_pass_is_plain_and_later_ones_are_measured_again():
    policy, modes = controller("cheap", target=TARGET), []
    for _ in range(MEASURE_GAP + 2):
        decision = ask(policy)
        modes.append(decision.mode)
        report_back(policy, decision, accepted=50)
    assert [i for i, mode in enumerate(modes) if mode is Mode.MEASURE] == [0, MEASURE_GAP + 1]
    assert modes.count(Mode.SPECULATE) == MEASURE_GAP


def test_what_drafts_must_beat_is_measured_oftener_where_they_hardly_do():
    """Every fourth stands: 1.25 tokens for the time of 1.15 passes."""
    policy, modes = controller("cheap", target=CostCurve((1, 2, 3), (25, 28.75, 75))), []
    for turn in range(3 * CLOSE_GAP):
        decision = ask(policy)
        modes.append(decision.mode)
        rows = 1 + sum(share.k for share in decision.shares.values())
        report_back(policy, decision, accepted=turn % 4 == 0, pass_ms=25 + 3.75 * (rows > 1))
    assert modes[-2 * CLOSE_GAP :].count(Mode.SPECULATE) > CLOSE_GAP
    assert modes.count(Mode.MEASURE) >= 2
    drafted = "".join("x" if mode is Mode.SPECULATE else " " for mode in modes).split()
    assert max(map(len, drafted)) <= CLOSE_GAP


def test_every_step_says_why():
    policy = controller("cheap", target=TARGET)
    first = ask(policy)
    report_back(policy, first, 0)
    second = ask(policy)
    assert first.reason == "measure: to know what drafts must beat"
    assert second.reason.startswith("speculate: ")
    assert f"{second.speedup:.2f}" != "1.00"
    report_back(policy, second, 0)
    nothing = ask(policy, drafters=())
    assert (nothing.shares, nothing.reason) == ({}, "plain: no request may draft")


def test_a_client_pins_length_and_drafter():
    policy = controller("cheap", "costly", target=TARGET)
    for _ in range(3):
        decision = ask(policy, k=7, drafters=("costly",))
        assert decision.shares == {"r0": Share("costly", 7)}
        report_back(policy, decision, 0)
    assert ask(policy, k=0).shares == {}
    assert ask(policy, k=7, room=2, drafters=("costly",)).shares == {"r0": Share("costly", 2)}


def test_each_request_is_told_what_its_own_draft_is_expected_to_gain():
    """Two tokens of .6 beside a plain request: 1.96 and 1 tokens in 12.5 ms instead of 10."""
    paper = DrafterOnPaper(DraftCosts(request_ms=2.5), Prior(alpha=0.6, offers=1.0))
    policy = Controller(CostCurve((1,), (10,)), {"cheap": paper})
    candidates = [
        Candidate(id="drafts", drafters=("cheap",), room=50, k=2),
        Candidate(id="plain", drafters=(), room=50),
    ]
    decision = policy.decide(candidates)
    assert decision.shares == {"drafts": Share("cheap", 2)}
    assert decision.shares["drafts"].speedup == pytest.approx(1.96 * 0.8)
    assert decision.speedup == pytest.approx(2.96 / 2 * 0.8)


def test_nothing_is_predicted_where_every_length_is_pinned():
    policy = controller("cheap", target=TARGET)
    drafted = ask(policy, k=3)
    assert (drafted.speedup, drafted.shares["r0"].speedup) == (None, None)
    assert ask(policy, k=0).speedup == 1.0


def test_an_operator_sets_ceilings_by_batch_size():
    limits = Limits(max_k=6, by_batch=((1, 4), (3, 1), (5, 0)))
    assert [limits.ceiling(batch) for batch in (1, 2, 3, 4, 5, 99)] == [4, 4, 1, 1, 0, 0]
    assert Limits(max_k=3, by_batch=((8, 0),)).ceiling(1) == 3
    policy = controller("cheap", limits=limits, target=CostCurve((1,), (25,)))
    report_back(policy, ask(policy), 0)
    assert ask(policy).shares["r0"].k == 4
    assert {share.k for share in ask(policy, batch=4).shares.values()} == {1}
    off = ask(policy, batch=5, k=3)
    assert (off.shares, off.mode) == ({}, Mode.PINNED)
    assert ask(policy, batch=5).reason == "plain: the operator's ceiling for 5 requests is 0"
    with pytest.raises(ConfigError, match="must rise"):
        Limits(by_batch=((4, 1), (2, 2)))
    with pytest.raises(ConfigError, match=">= 0"):
        Limits(max_k=-1)


def test_drafts_that_stopped_stay_away_for_a_while():
    """A crowd comes and goes, as at the thresholds where other engines flap."""
    policy = controller("cheap", target=TARGET, limits=Limits(by_batch=((1, 8), (5, 0))))
    modes = []
    for batch in (1, 1, 5, *[1] * (DWELL + 1)):
        decision = ask(policy, batch)
        modes.append(decision.mode)
        report_back(policy, decision, accepted=8)
    assert modes[:3] == [Mode.MEASURE, Mode.SPECULATE, Mode.PLAIN]
    assert modes[3 : 2 + DWELL] == [Mode.PLAIN] * (DWELL - 1)
    assert modes[-1] is Mode.SPECULATE


def test_prompts_in_the_pass_leave_the_spell_as_it_is():
    policy = controller("cheap", target=TARGET)
    report_back(policy, ask(policy), 0)
    report_back(policy, ask(policy), 9)
    shared = policy.decide([Candidate(id="r0", drafters=("cheap",), room=50)], prefill_rows=200)
    assert "200 rows of prompts" in shared.reason
    policy.observe(Step(rows=201, pass_ms=900, prefill_rows=200, outcomes=[Outcome("r0", 0, 0)]))
    assert ask(policy).mode is Mode.SPECULATE
