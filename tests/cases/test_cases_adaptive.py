"""Section K of what users reported: slower than plain decoding, adaptivity, switches.

Where speed is the matter it is that of a simulated machine, whose clock nothing disturbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from paceline.drafters.ngram import NgramIndex
from paceline.engine import Engine
from paceline.plan.controller import Controller
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.decision import Limits, Mode
from paceline.plan.forecast import DrafterOnPaper
from paceline.plan.lengths import Costs, by_batch, switch_off_batch
from paceline.plan.simulate import FixedLength, Machine, Policy, Simulation, simulate
from paceline.plan.traces import Agreement, Rates
from paceline.plan.workload import workload
from tests.engines import run
from tests.habits import DRAFTERS, alone, ask

TARGET = CostCurve((1, 4, 8, 16, 64), (25, 28, 40, 75, 300))
LOOKUP = DraftCosts(request_ms=0.3)


def serve(
    policy: Policy, agreements: Mapping[str, Agreement], batch: int, tokens: int = 300
) -> Simulation:
    machine = Machine(
        target=TARGET, drafts=dict.fromkeys(agreements, LOOKUP), max_requests=batch, noise=0.03
    )
    return simulate(workload([0.0] * batch, 16, tokens, [agreements]), machine, policy, seed=2)


def speed(found: Simulation) -> float:
    logs = [log for log in found.logs if log.decoding]
    return sum(log.committed for log in logs) / sum(log.step_ms for log in logs)


def controller(*names: str, limits: Limits | None = None) -> Controller:
    return Controller(TARGET, {name: DrafterOnPaper(LOOKUP) for name in names}, limits)


@pytest.mark.parametrize("batch", [20, 32, 64])
def test_never_slower_high_batch(batch: int) -> None:
    """ArcticInference 185: suffix decoding fell below no speculation beyond 20 requests."""
    rates = {"suffix": Rates((0.35,))}
    plain, fixed = (speed(serve(FixedLength("suffix", k), rates, batch, 60)) for k in (0, 8))
    assert fixed < 0.6 * plain
    assert speed(serve(controller("suffix"), rates, batch, 60)) >= 0.98 * plain


def test_adaptive_threshold_stable() -> None:
    """vLLM 49548: 232 tokens/s fell to 24 at the batch size at which the schedule says 0."""
    limits = Limits(by_batch=((1, 2), (5, 0)))
    rates = {"d": Rates((0.7,))}
    above = serve(controller("d", limits=limits), rates, 8)
    assert {log.drafted for log in above.logs} == {0}
    assert speed(above) >= 0.999 * speed(serve(FixedLength("d", 0), rates, 8))
    below = serve(controller("d", limits=limits), rates, 4)
    modes = [
        log.mode is Mode.SPECULATE
        for log in below.logs
        if log.decoding and log.mode is not Mode.MEASURE
    ]
    assert sum(a != b for a, b in pairwise(modes)) <= 1


def test_batch_sweep() -> None:
    """vLLM 50851: 2.1x at batch 1 and 0.77x at batch 8. The sweep says so beforehand."""
    costs = Costs(target=TARGET, draft=LOOKUP)
    lengths = {one.batch: one for one in by_batch((0.5,), (1, 8, 64), costs)}
    assert lengths[1].k >= 2
    assert lengths[1].speedup > 1.5
    assert lengths[64].k == 0
    assert all(one.speedup >= 1 for one in lengths.values())
    off = switch_off_batch((0.2,), costs)
    assert off is not None
    assert 1 < off <= 64


def test_ngram_cost_long_prompt() -> None:
    """vLLM 16883: a search of the 50,000-token prompt in every step. Here a step costs its tokens:
    the work is counted, not timed.
    """
    text = [token % 977 for token in range(50_000)]
    index = NgramIndex(range(2, 5))
    index.extend(text)
    assert index.find() is not None
    reads = list[int]()

    class Counted(list[int]):
        def __getitem__(self, at):  # type: ignore[no-untyped-def]
            found = super().__getitem__(at)
            reads.append(len(found) if isinstance(at, slice) else 1)
            return found

    for token in range(20):
        text.append(token)
        index.extend(Counted(text))
    assert sum(reads) == 20


def test_per_request_toggle(habit: Engine) -> None:
    """sglang 30263: prose loses, code wins, in one batch. Each request has its own switch."""
    cases = [(name, k) for name in DRAFTERS for k in (0, 3)]
    asked = [
        ask(f"{name} {k}", drafter=name, k=k, temperature=0.0, ignore_eos=True) for name, k in cases
    ]
    for (name, k), output in zip(cases, run(habit, *asked), strict=True):
        assert list(output.token_ids) == alone("abc", temperature=0.0, ignore_eos=True)
        assert output.counts.proposed <= k * output.counts.passes
        if name == "model:like":
            assert (output.counts.proposed > 0) == (k > 0)


def test_auto_k() -> None:
    """llama.cpp 11933: one length is wrong for some text. Found by itself, for each."""
    for alpha in (0.0, 0.3, 0.9):
        rates = {"d": Rates((alpha,))}
        best = max(speed(serve(FixedLength("d", k), rates, 1, 800)) for k in (0, 1, 2, 3, 7))
        assert speed(serve(controller("d"), rates, 1, 800)) >= 0.93 * best


def test_predicted_outputs(habit: Engine) -> None:
    """vLLM 23276: a guess of the output is drafted, and the text is the model's own."""
    asked = ask("r", drafter="prediction", k=4, temperature=0.0, ignore_eos=True)
    (output,) = run(habit, asked)
    assert output.counts.accepted > 0
    assert list(output.token_ids) == alone("abc", temperature=0.0, ignore_eos=True)
