"""The plan that is measured: what is read off a calibration, plan.json, figures, the command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paceline.bench.advice import advise, as_record, rate
from paceline.bench.calibrate import Calibration, DrafterSeen, noise_passes
from paceline.bench.pair import compare, judge_pair
from paceline.bench.plots import acceptance, write_figures
from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.models import describe
from paceline.plan.costs import CostCurve, DraftCosts, Pass
from paceline.plan.estimators import Counts
from paceline.plan.record import MeasuredPlan
from tests.unit.bench.test_bench_offline import run_at, step


def seen(accepted: int, of: int, ms: float = 0.1) -> DrafterSeen:
    counts = Counts((of,) * 8, (accepted,) * 8)
    return DrafterSeen(
        costs=DraftCosts(request_ms=ms), counts=counts, asked=of, offered=of, tokens_per_s=40.0
    )


FLAT = CostCurve((1, 16, 64), (20.0, 20.0, 80.0), 0.0, (0.05,) * 20)


def calibration(**drafters: DrafterSeen) -> Calibration:
    return Calibration(
        model="mini", target=FLAT, drafters=drafters, context_tokens=100.0, passes=[Pass(1, 9, 20)]
    )


def test_the_better_drafter_and_its_length_are_advised() -> None:
    """Flat to 16 rows: one request drafts long, sixteen hardly, 64 not at all."""
    found = calibration(good=seen(90, 100), bad=seen(10, 100))
    one, sixteen, crowd = (advise(found, batch) for batch in (1, 16, 64))
    assert (one.drafter, one.k) == ("good", 15)
    assert one.plain_tokens_per_s == 50
    assert one.tokens_per_s.low < one.tokens_per_s.middle == pytest.approx(50 * one.speedup)
    assert "drafts of 15 by good pay above an alpha of 0.0" in one.why
    assert one.why.endswith("and yours is 0.90")
    assert one.k > sixteen.k >= crowd.k
    assert advise(calibration(bad=seen(0, 100)), 16).drafter == ""


def test_silence_counts_as_failure() -> None:
    """Asked 100 times it drafted 50 times, and 45 of those stood: .45 of all."""
    half = DrafterSeen(
        costs=DraftCosts(), counts=Counts((50,), (45,)), asked=100, offered=50, tokens_per_s=1.0
    )
    assert rate(half) == 0.45
    assert half.alphas[0].mean == pytest.approx(0.45, abs=0.01)
    assert half.on_paper.prior.offers == 0.5


def test_plan_json_comes_back_as_it_went(tmp_path) -> None:
    found = calibration(good=seen(90, 100))
    record = as_record(found, [advise(found, 1)])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(record))
    plan = MeasuredPlan.read(path)
    assert plan == found.plan
    assert plan.drafters["good"].prior.alpha == pytest.approx(0.9, abs=0.01)
    assert record["advice"][0]["k"] == 15


FALLING = {"rows": [1, 2], "ms": [2, 1], "ms_per_context_token": 0, "errors": []}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 9}, "version 9, not 1"),
        (
            {"target": {"rows": [1, 2], "ms": [2, 1], "ms_per_context_token": 0, "errors": []}},
            "rise",
        ),
        ({"target": {}}, "rows"),
        ({"drafters": {"d": {}}}, "passes"),
    ],
)
def test_a_plan_that_is_none_is_one_sentence(tmp_path, change, complaint) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(calibration(good=seen(1, 2)).plan.as_record() | change))
    with pytest.raises(ConfigError, match=f"is no plan of `paceline plan` .*{complaint}"):
        MeasuredPlan.read(path)
    with pytest.raises(ConfigError, match="Cannot read the plan"):
        MeasuredPlan.read(tmp_path / "no.json")


def test_an_engine_starts_with_its_plan_and_no_others(tmp_path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(calibration(ngram=seen(1, 2)).plan.as_record()))
    llm = LLM("mini", draft="ngram", k="auto", plan=str(path))
    (listener,) = llm.engine.listeners
    forecast = listener.__self__.controller.forecast  # type: ignore[attr-defined]
    assert forecast.target.ms(1) == 20
    assert forecast.drafters["ngram"].pool.prior.alpha == pytest.approx(0.5)
    path.write_text(path.read_text().replace('"mini"', '"maxi"'))
    with pytest.raises(ConfigError, match="is of maxi, not of mini"):
        LLM("mini", draft="ngram", plan=str(path))


def test_passes_of_any_rows_are_measured_on_a_real_engine() -> None:
    llm = LLM("mini", draft="noise", max_num_requests=1)
    for rows in (1, 5):
        found = noise_passes(llm, llm.encode("def f(x):\n"), rows)
        assert {one.rows for one in found} == {rows}
        assert len(found) >= 3
        assert all(one.ms > 0 for one in found)
    llm.engine.pool.check_idle()


def test_figures_are_png_files(tmp_path) -> None:
    found = calibration(good=seen(0, 100))
    images = write_figures(tmp_path, {"a": ("Title", acceptance(found))})
    assert images["a"][:8] == b"\x89PNG\r\n\x1a\n" == (tmp_path / "a.png").read_bytes()[:8]


def test_a_pair_is_looked_at_before_it_is_loaded() -> None:
    mini, draft = describe("mini"), describe("mini-draft")
    found = {one.what: one for one in compare(mini, draft, 1 << 30)}
    assert all(one.works for one in found.values())
    assert found["vocabulary"].told == "the same 4096 ids"
    poor = {one.what: one for one in compare(mini, draft, 1 << 10)}
    assert not poor["memory"].works
    assert "--quantize" in poor["memory"].mend
    short = describe("mini-draft")
    object.__setattr__(
        short, "spec", short.spec.__class__(**{**vars(short.spec), "max_model_len": 9})
    )
    assert "beyond 9 tokens" in {o.what: o for o in compare(mini, short, 0)}["context"].mend


def test_the_worth_of_a_pair_is_read_off_its_runs() -> None:
    """Nothing stands and drafts cost half a pass: leave it out."""
    drafted = [replace(run_at(50.0), steps=tuple(step(draft_ms=5.0) for _ in range(9)))]
    found = judge_pair(drafted, [run_at(50.0)])
    assert found.best.k == 0
    assert (found.plain_ms, found.draft_ms) == (10.0, 5.0)
    assert found.finding.mend == "no draft pays here; leave it out"
