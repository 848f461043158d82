"""A stream that changes: which passes count, and what is found."""

from __future__ import annotations

import pytest

from paceline.bench.change import ChangePlan, measure_change, report_change
from paceline.bench.policies import AUTOMATIC, OFF, policies_of
from paceline.bench.setting import Setting
from paceline.types import SamplingParams


@pytest.fixture(scope="module")
def cell(mini):
    plan = ChangePlan(
        kinds=("edit", "chat"),
        before=[mini.encode("x = [1, 2,"), mini.encode("y = 1\n")],
        after=[mini.encode("def f(a):\n"), mini.encode("import os\n")],
        policies=policies_of(("ngram",), (2,)),
        turns=2,
        params=SamplingParams(temperature=0, max_tokens=24, ignore_eos=True),
    )
    *progress, found = measure_change(mini, plan)
    assert sum(progress) == plan.runs
    return found


def test_passes_20_to_40_after_the_change_count(cell) -> None:
    assert cell.kind == "edit → chat"
    assert set(cell.runs) == {OFF, AUTOMATIC, "ngram k=2"}
    for run in (run for runs in cell.runs.values() for run in runs):
        assert len(run.steps) == 21
        assert all(step.prefill_rows == 0 for step in run.steps)
        assert run.tokens == sum(step.committed for step in run.steps)
    # Plain passes commit a token each, 23 after a text's first: the 20th to the 23rd of one text
    # and 17 of the next.
    assert [run.tokens for run in cell.runs[OFF]] == [21, 21]
    first, second = (run.steps[0].drafts[0].context_tokens for run in cell.runs[OFF])
    assert first != second  # each stream begins its second kind with another prompt
    assert cell.same_text


def test_a_report_compares_with_the_best_fixed_length(cell, mini) -> None:
    report = report_change(cell, Setting.of(mini, "paceline bench offline"))
    near, same = report.findings
    assert near.statement.startswith("best k, passes 20 to 40 after the change edit → chat: ")
    assert cell.best_fixed in near.statement
    assert same.holds
    assert set(report.record["tokens_per_s"]) == set(cell.runs)
    assert report.charts[0].series[cell.best_fixed][0].middle == 1
