"""The controller inside the simulated engine."""

from __future__ import annotations

from itertools import pairwise

import pytest

from paceline.plan import unmeasured
from paceline.plan.controller import Controller
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.decision import Mode
from paceline.plan.forecast import DrafterOnPaper
from paceline.plan.probing import ALLOWANCE_PASSES, SHARE
from paceline.plan.simulate import FixedLength, Machine, simulate
from paceline.plan.traces import Phases, Rates
from paceline.plan.workload import report, workload
from tests.unit.plan.test_controller import DRAFTS, TARGET, controller


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


@pytest.mark.parametrize(("alphas", "share"), [((0.5, 0.5), 0.93), ((0.8, 0.3), 0.75)])
def test_requests_that_begin_together_end_together(alphas, share):
    """Most passes are full ones; where all tokens count alike, 0.85 and 0.55 of them."""
    agreements = [{"cheap": Rates((alpha,))} for alpha in alphas]
    machine = Machine(target=TARGET, drafts=DRAFTS, max_requests=4, noise=0.05)
    arrivals = workload([0.0] * 4, 32, 400, agreements)
    logs = []
    for seed in range(3):
        found = simulate(arrivals, machine, controller("cheap", target=TARGET), seed)
        logs += [log for log in found.logs if log.decoding]
    assert sum(log.mode is Mode.SPECULATE for log in logs) > len(logs) / 3
    assert sum(log.decoding == 4 for log in logs) >= share * len(logs)


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


def test_the_same_past_gives_the_same_answers():
    runs = [
        run(controller("cheap", "costly"), {"cheap": Rates((0.6,))}, 4, tokens=100).logs
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
