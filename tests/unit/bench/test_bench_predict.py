"""`bench predict` on cells whose costs are known: it must be right, and wrong where they differ."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.bench.decoding import Run
from paceline.bench.predict import (
    PredictCell,
    groups_of,
    predict,
    report,
    run_cells,
    tokens_per_pass,
)
from paceline.bench.setting import Setting
from paceline.types import DraftStats, SamplingParams, StepStats


def made_step(batch: int, k: int, accepted: int, slower: float = 1.0) -> StepStats:
    """20 ms a pass and half a millisecond a row, and 2 ms a drafted token."""
    drafts = tuple(
        DraftStats(request_id=str(r), drafter="d", budget=k, proposed=k, accepted=accepted,
                   context_tokens=100)
        for r in range(batch)
    )  # fmt: skip
    rows = batch * (k + 1)
    pass_ms, draft_ms = slower * (20 + 0.5 * rows), 2.0 * k
    return StepStats(
        running=batch, waiting=0, prefill_rows=0, verify_rows=rows, proposed=batch * k,
        accepted=batch * accepted, committed=batch * (accepted + 1), preempted=0, blocks_used=1,
        seconds={"forward": pass_ms / 1e3, "propose": draft_ms / 1e3}, draft_ms={"d": draft_ms},
        drafts=drafts,
    )  # fmt: skip


def made_cell(batch: int, k: int, slower: float = 1.0) -> PredictCell:
    runs = [
        Run(tokens=1, decode_ms=1.0, draft_prefill_ms=0.0, ttft_ms=(1.0,), ms_per_token=(1.0,),
            steps=tuple(made_step(batch, k, (turn + at) % (k + 1), slower) for at in range(13)),
            texts=tuple((turn, r) for r in range(batch)), requests=tuple(map(str, range(batch))))
        for turn in range(4)
    ]  # fmt: skip
    return PredictCell("d", k, batch, ((runs[0], runs[1]), (runs[2], runs[3])))


CELLS = [made_cell(batch, k) for batch in (1, 2, 4) for k in (1, 2, 4)]


def test_cells_of_one_law_are_predicted_from_each_other() -> None:
    """Straight costs, so that what was left out lies on the others' line or near it."""
    found = predict(CELLS, {"d": True})
    assert len(found) == 9
    assert all(one.error < 0.1 for one in found)
    assert all(one.second_half in one.interval for one in found)
    first = found[0]
    committed = [step.committed for step in CELLS[0].steps]
    assert first.measured == pytest.approx(1e3 * sum(committed) / (23 * len(committed)))


def test_a_cell_of_another_law_is_not(mini) -> None:
    cells = [*CELLS[:-1], replace(CELLS[-1], halves=made_cell(4, 4, slower=2.0).halves)]
    found = predict(cells, {"d": True})
    assert found[-1].error > 0.5
    told = report(found, Setting.of(mini, "paceline bench predict"))
    assert "of 9 cells are within 10%" in told.findings[0].statement
    assert not told.findings[0].holds
    assert json.loads(json.dumps(told.as_record()))["cells"][-1]["batch"] == 4


def test_a_half_fills_two_batches_at_least() -> None:
    assert groups_of([[1], [2]], 4) == [[[1], [2], [1], [2]]] * 2
    assert groups_of([[1], [2], [3]], 1) == [[[1]], [[2]], [[3]]]


def test_the_runs_of_a_cell_are_spread_over_the_whole_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten runs of one request and four of four go by turns; each half has its own prompts."""
    seen, told = [], []

    def run_batch(llm: Any, group: Any, params: Any, asked: Any) -> Any:
        seen.append((len(group), group[0][0]))
        return group[0][0]

    monkeypatch.setattr("paceline.bench.predict.run_batch", run_batch)
    llm: Any = SimpleNamespace(config=SimpleNamespace(speculation=SimpleNamespace(drafts=["d"])))
    cells = run_cells(
        llm,
        [[i] for i in range(10)],
        [1, 4],
        [2],
        SamplingParams(),
        lambda *at: told.append(at),
    )
    assert [(one.drafter, one.k, one.batch) for one in cells] == [("d", 2, 1), ("d", 2, 4)]
    assert cells[0].halves == ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))
    assert cells[1].halves == ((0, 4), (5, 9))
    assert [at for at, (size, _) in enumerate(seen) if size == 4] == [2, 3, 10, 11]
    assert told[-1] == (14, 14)


def test_a_prompt_that_fills_up_a_batch_says_nothing_new() -> None:
    """Two texts, of 3 and of 1 tokens a pass, are two values however often they were written."""
    run = made_cell(4, 2).halves[0][0]
    drafts = tuple(
        replace(one, accepted=2 * (place % 2)) for place, one in enumerate(run.steps[0].drafts)
    )
    steps = (replace(run.steps[0], drafts=drafts),) * 3
    again = replace(run, steps=steps, texts=((1,), (2,)) * 2)
    assert tokens_per_pass([again, again]) == [1.0, 3.0]
