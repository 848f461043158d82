"""The controller, inside the simulated engine and step by step."""

from __future__ import annotations

from itertools import pairwise

import pytest

from paceline.errors import ConfigError
from paceline.plan import unmeasured
from paceline.plan.belief import Prior
from paceline.plan.controller import DWELL, MEASURE_GAP, Controller
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.decision import Candidate, Limits, Mode, Outcome, Share, Step
from paceline.plan.forecast import DrafterOnPaper
from paceline.plan.probing import ALLOWANCE_PASSES, SHARE
from paceline.plan.simulate import FixedLength, Machine, simulate
from paceline.plan.traces import Phases, Rates
from paceline.plan.workload import report, workload

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


def run(policy, agreements, batch=1, tokens=800, requests=None, seed=1):
    machine = Machine(target=TARGET, drafts=DRAFTS, max_requests=batch, noise=0.05)
    arrivals = workload([0.0] * (requests or batch), 32, tokens, [agreements])
    return simulate(arrivals, machine, policy, seed)


def speed(simulation):
    logs = [log for log in simulation.logs if log.decoding]
    return sum(log.committed for log in logs) / sum(log.step_ms for log in logs)


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_never_slower_than_plain_by_more_than_probes_may_lose(name, batch, alpha):
    agreements = {name: Rates((alpha,))}
    policy = controller(name)
    found = run(policy, agreements, batch, tokens=400)
    plain = run(FixedLength(name, 0), agreements, batch, tokens=400)
    assert speed(found) >= 0.98 * speed(plain)
    elapsed = policy.prober.elapsed_ms
    one_probe = 200.0  # 32 rows, which the guess took for 44 ms, and their drafts
    assert policy.prober.lost_ms <= ALLOWANCE_PASSES * 45 + SHARE * elapsed + one_probe


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("alpha", [0.5, 0.8, 0.95])
def test_close_to_the_best_fixed_length(name, alpha):
    """Mean over 3 seeds, the first passes and their wrong guess of costs included."""

    def mean(policy_of):
        runs = [run(policy_of(), {name: Rates((alpha,))}, seed=s) for s in range(3)]
        return sum(map(speed, runs)) / len(runs)

    best = max(mean(lambda k=k: FixedLength(name, k)) for k in (0, 1, 2, 3, 4, 6))
    assert mean(lambda: controller(name)) >= 0.93 * best


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_model_much_faster_than_the_guess_is_drafted_for_at_once(share):
    """A pass of 1 ms where 30 were guessed, a draft pass of 0.1 or 0.5 where 7.5 were."""
    target = CostCurve((1, 5, 16), (1.0, 1.2, 3.0))
    drafts = {"model": DraftCosts(passes=CostCurve((1,), (share,)))}
    machine = Machine(target=target, drafts=drafts, max_requests=1, noise=0.05)
    arrivals = workload([0.0], 32, 400, [{"model": Rates((0.9,))}])
    papers = {"model": DrafterOnPaper(unmeasured.drafts(True))}
    policy = Controller(unmeasured.TARGET, papers, guessed=True)
    best = max(speed(simulate(arrivals, machine, FixedLength("model", k), 1)) for k in (1, 2, 4, 8))
    assert speed(simulate(arrivals, machine, policy, 1)) >= 0.9 * best


@pytest.mark.parametrize("batch", [1, 16])
def test_rows_that_are_freer_than_was_guessed_are_found_out(batch):
    """A pass of 30 ms and half of one a row, where the guess has 180 at 32 rows."""
    target, drafts = CostCurve((1, 512), (30.0, 285.0)), {"cheap": DRAFTS["cheap"]}
    machine = Machine(target=target, drafts=drafts, max_requests=batch, noise=0.05)
    arrivals = workload([0.0] * batch, 32, 400, [{"cheap": Rates((0.9,))}])
    papers = {"cheap": DrafterOnPaper(unmeasured.drafts(False))}

    def rate(policy):
        return speed(simulate(arrivals, machine, policy, 1))

    best = max(rate(FixedLength("cheap", k)) for k in (0, 1, 2, 4, 8, 16))
    assert rate(Controller(unmeasured.TARGET, papers, guessed=True)) >= 0.9 * best


def passes_after(simulation, tokens, first=20, last=40):
    """Tokens per millisecond over some passes after the text changed."""
    done, after = 1, []
    for log in simulation.logs:
        if log.decoding and done >= tokens:
            after.append(log)
        done += log.committed if log.decoding else 0
    window = after[first:last]
    assert len(window) == last - first
    return sum(log.committed for log in window) / sum(log.step_ms for log in window)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("cheap", 0.95, 0.0), ("cheap", 0.95, 0.6), ("cheap", 0.9, 0.3), ("costly", 0.95, 0.2)],
)
def test_passes_20_to_40_after_a_change_are_near_the_best(name, old, new):
    """From code to prose: the mean over 6 texts, against the best fixed length for the prose."""
    phases = Phases(((0, Rates((old,))), (300, Rates((new,)))))

    def mean(policy_of):
        runs = [run(policy_of(), {name: phases}, tokens=500, seed=s) for s in range(6)]
        return sum(passes_after(one, 300) for one in runs) / len(runs)

    best = max(mean(lambda k=k: FixedLength(name, k)) for k in (0, 1, 2, 3))
    assert mean(lambda: controller(name, target=TARGET)) >= 0.9 * best


def test_back_from_plain_when_drafts_pay_again():
    """600 tokens of a text on which nothing stands, then one on which nine in ten do."""
    phases = Phases(((0, Rates((0.0,))), (600, Rates((0.9,)))))
    found = run(controller("cheap"), {"cheap": phases}, tokens=3000)
    modes = [log.mode for log in found.logs if log.decoding]
    assert modes[100:400].count(Mode.SPECULATE) <= 15
    assert modes[-300:].count(Mode.SPECULATE) >= 290


def test_what_is_known_to_stand_and_not_to_pay_is_tried_seldom():
    """Seven in ten stand, but 32 rows take twice as long as 16."""
    found = run(controller("cheap", target=TARGET), {"cheap": Rates((0.7,))}, 16, tokens=400)
    modes = [log.mode for log in found.logs if log.decoding]
    assert modes.count(Mode.SPECULATE) == 0
    assert modes.count(Mode.PROBE) <= len(modes) / 16


def test_off_and_on_do_not_alternate_at_the_break_even():
    """Drafts that are worth exactly as much as they cost: fewer than one turn in 25 passes."""
    found = run(controller("cheap"), {"cheap": Rates((0.07,))}, tokens=1500)
    drafts = [log.mode is Mode.SPECULATE for log in found.logs if log.decoding]
    turns = sum(a != b for a, b in pairwise(drafts))
    assert turns <= len(drafts) / 25


def test_the_better_drafter_is_found_for_each_text():
    for good, other in (("cheap", "costly"), ("costly", "cheap")):
        agreements = {good: Rates((0.9,)), other: Rates((0.05,))}
        policy = controller("cheap", "costly")
        found = run(policy, agreements, tokens=1500)
        alone = run(controller(good), {good: Rates((0.9,))}, tokens=1500)
        assert speed(found) >= 0.95 * speed(alone)


def test_plain_steps_by_the_thousand_leave_nothing_behind():
    policy = controller("cheap", "costly")
    run(policy, {"cheap": Rates((0.0,)), "costly": Rates((0.0,))}, tokens=500, requests=3)
    assert policy.forecast.known_requests == 0
    assert len(policy.prober.patience) <= 3


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


def test_the_same_past_gives_the_same_answers():
    runs = [
        run(controller("cheap", "costly"), {"cheap": Rates((0.6,))}, 4, tokens=100).logs
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


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


def test_under_load_it_beats_both_plain_and_fixed():
    """40 short requests for 16 places and a long one that is left alone: drafts pay at the end."""
    agreements = [{"cheap": Rates((0.8,))}]
    arrivals = workload([0.0] * 40, 64, 60, agreements) + workload([0.0], 64, 800, agreements)
    machine = Machine(target=TARGET, drafts=DRAFTS, max_requests=16)
    rates = [
        report(simulate(arrivals, machine, policy)).tokens_per_s
        for policy in (controller("cheap"), FixedLength("cheap", 0), FixedLength("cheap", 4))
    ]
    assert rates[0] > max(rates[1:])
