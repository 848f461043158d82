"""The simulated engine: exact where nothing is random, close to the formulas where something is."""

from __future__ import annotations

import pytest

from paceline.errors import ConfigError
from paceline.plan.costs import FREE, CostCurve, DraftCosts
from paceline.plan.simulate import Arrival, FixedLength, Machine, simulate
from paceline.plan.throughput import expected_tokens
from paceline.plan.traces import Rates, Trace
from paceline.plan.workload import (
    Percentiles,
    Slo,
    bursty_ms,
    poisson_ms,
    report,
    workload,
)

FLAT = Machine(
    target=CostCurve((1,), (10,)), drafts={"d": DraftCosts(passes=CostCurve((1,), (1,)))}
)


def one(agreement, output_tokens=101):
    return workload([0.0], 8, output_tokens, [{"d": agreement}])


def test_plain_decoding_worked():
    run = simulate(one(Rates((0.0,))), FLAT, FixedLength("d", 0))
    (served,) = run.served
    assert (served.ttft_ms, served.latency_ms, served.ms_per_token) == (10, 1010, 10)
    assert report(run).tokens_per_s == pytest.approx(100)


def test_a_trace_replays_exactly():
    """Agreement yes, yes, no for ever and k = 2 from output token 1, whose place says yes, no, …:
    passes commit 2, then 3 each; the last has room for one token only.
    """
    run = simulate(one(Trace((True, True, False)), 8), FLAT, FixedLength("d", 2))
    decoding = [log for log in run.logs if log.decoding]
    assert [log.committed for log in decoding] == [2, 3, 2]
    assert [log.drafted for log in decoding] == [2, 2, 1]
    assert run.clock_ms == 10 + 12 + 12 + 11


@pytest.mark.parametrize(("alpha", "k"), [(0.6, 3), (0.9, 8)])
def test_rates_give_what_the_formula_says(alpha, k):
    run = simulate(one(Rates((alpha,)), 6001), FLAT, FixedLength("d", k))
    expected = expected_tokens(alpha, k)
    found = report(run)
    assert found.committed_per_pass == pytest.approx(expected, rel=0.04)
    assert found.tokens_per_s == pytest.approx(1e3 * expected / (10 + k), rel=0.04)


def test_prompts_in_chunks_and_a_full_engine():
    """Two requests, room for one; 10 rows a pass: 25 prompt tokens take 3 passes."""
    machine = Machine(target=CostCurve((1,), (10,)), drafts={}, max_requests=1, max_rows=10)
    run = simulate(workload([0.0, 0.0], 25, 2, [{}]), machine, FixedLength("d", 4))
    assert [served.ttft_ms for served in run.served] == [30, 70]
    assert [served.latency_ms for served in run.served] == [40, 80]


def test_an_idle_engine_waits_for_the_next_arrival():
    run = simulate(workload([5.0, 1000.0], 4, 1, [{}]), FLAT, FixedLength("d", 0))
    assert [served.end_ms for served in run.served] == [15, 1010]


def test_the_same_seed_is_the_same_run():
    machine = Machine(target=FLAT.target, drafts=FLAT.drafts, noise=0.1)
    runs = [simulate(one(Rates((0.7,))), machine, FixedLength("d", 3), s).logs for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_thousands_of_requests_keep_the_books():
    times = poisson_ms(2000, 100, seed=3)
    arrivals = workload(times, 16, 20, [{"d": Rates((0.8,))}])
    machine = Machine(target=CostCurve((1, 32), (10, 20)), drafts={"d": FREE}, max_requests=64)
    run = simulate(arrivals, machine, FixedLength("d", 2))
    assert len(run.served) == 2000
    assert sum(log.committed for log in run.logs) + 2000 == 2000 * 20
    assert sorted(served.arrival.at_ms for served in run.served) == times
    assert all(served.first_ms > served.arrival.at_ms for served in run.served)


def test_arrivals_have_their_rate_and_their_burstiness():
    for make, variation in ((poisson_ms, 1.0), (bursty_ms, 4.0)):
        times = make(20_000, 50, seed=1)
        gaps = [b - a for a, b in zip([0.0, *times], times, strict=False)]
        mean = sum(gaps) / len(gaps)
        square = sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2
        assert mean == pytest.approx(20, rel=0.05)
        assert square == pytest.approx(variation, rel=0.1)
    with pytest.raises(ConfigError, match="positive rate"):
        poisson_ms(1, 0)


def test_percentiles_and_goodput():
    assert Percentiles.of(range(1, 11)) == Percentiles(5, 9, 10)
    run = simulate(workload([0.0, 0.0], 4, 11, [{}]), FLAT, FixedLength("d", 0))
    assert report(run, Slo(ttft_ms=10)).goodput_per_s == pytest.approx(2 / 0.11)
    assert report(run, Slo(ms_per_token=9)).goodput_per_s == 0
    with pytest.raises(ConfigError, match="no request"):
        report(simulate([], FLAT, FixedLength("d", 0)))


def test_a_request_without_drafters_is_served():
    arrival = Arrival(at_ms=0, prompt_tokens=1, output_tokens=3, agreements={})
    assert simulate([arrival], FLAT, FixedLength("d", 0)).served[0].latency_ms == 30
