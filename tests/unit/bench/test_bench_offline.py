"""The offline bench: what is a decode phase, whose turn it is, what its figures mean."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paceline.bench.decoding import Run, draft_prefill_ms, run_batch
from paceline.bench.offline import findings, report
from paceline.bench.policies import (
    AUTOMATIC,
    OFF,
    Cell,
    Plan,
    measure,
    median_interval,
    pick,
    policies_of,
)
from paceline.bench.setting import Setting
from paceline.bench.steered import steered
from paceline.bench.workloads import KINDS, Task, by_kind, dataset_tasks, own_tasks, task_of
from paceline.errors import ConfigError, UnknownNameError
from paceline.types import DraftStats, SamplingParams, Speculation, StepStats

GREEDY = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)


def step(seconds: float = 0.01, committed: int = 1, draft_ms: float = 0.0) -> StepStats:
    one = DraftStats(
        request_id="r", drafter="d", budget=1, proposed=1, accepted=0, context_tokens=9
    )
    return StepStats(
        running=1, waiting=0, prefill_rows=0, verify_rows=2, proposed=1, accepted=0,
        committed=committed, preempted=0, blocks_used=1, seconds={"forward": seconds},
        draft_ms={"d": draft_ms} if draft_ms else {}, drafts=(one,), mode="speculate",
    )  # fmt: skip


def run_at(tokens_per_s: float, text: int = 1) -> Run:
    return Run(
        tokens=100, decode_ms=1e5 / tokens_per_s, draft_prefill_ms=0.0, ttft_ms=(5.0,),
        ms_per_token=(1e3 / tokens_per_s,), steps=(step(),), texts=((text,),),
        requests=("r",),
    )  # fmt: skip


def test_a_run_counts_the_steps_that_no_prompt_shares(mini) -> None:
    prompts = [mini.encode("def add(a, b):\n"), mini.encode("x = 1\n")]
    run = run_batch(mini, prompts, GREEDY, Speculation(k=2))
    assert [len(text) for text in run.texts] == [16, 16]
    assert run.tokens == sum(s.committed for s in run.steps)
    assert 24 <= run.tokens <= 30
    assert all(s.prefill_rows == 0 and s.drafts for s in run.steps)
    whole_ms = run.decode_ms + run.draft_prefill_ms
    assert whole_ms >= sum(s.step_ms for s in run.steps)  # what listens to steps counts as well


def test_what_a_drafter_takes_to_read_a_prompt_is_told_apart() -> None:
    steps = [step(draft_ms=ms) for ms in (50.0, 3.0, 3.0, 3.0)]
    assert draft_prefill_ms(steps) == 47
    assert draft_prefill_ms([step(), step()]) == 0


@pytest.mark.parametrize(
    ("count", "ranks"), [(20, (6, 15)), (10, (2, 9)), (6, (1, 6)), (3, (1, 3)), (1, (1, 1))]
)
def test_interval_of_a_median(count: int, ranks: tuple[int, int]) -> None:
    """The textbook's ranks of the sign test at 95 %; the whole range where there are too few."""
    found = median_interval([float(value) for value in range(count, 0, -1)])
    assert (found.low, found.high) == ranks


def test_each_policy_runs_the_same_prompts_in_every_turn(mini) -> None:
    prompts = {"complete": [mini.encode(f"x{i} = 1\n") for i in range(3)]}
    plan = Plan(
        prompts=prompts, batches=(1, 2), policies=policies_of((), ()), turns=2,
        params=replace(GREEDY, max_tokens=6),
    )  # fmt: skip
    seen = list(measure(mini, plan))
    cells = [cell for cell in seen if isinstance(cell, Cell)]
    assert sum(done for done in seen if isinstance(done, int)) == plan.runs == 12
    assert [(cell.kind, cell.batch) for cell in cells] == [("complete", 1), ("complete", 2)]
    for cell in cells:
        assert {name: len(runs) for name, runs in cell.runs.items()} == {OFF: 2, AUTOMATIC: 2}
        assert set(cell.warm_up) == {OFF, AUTOMATIC}
        assert cell.same_text


def test_every_policy_of_a_cell_has_its_own_controller(mini) -> None:
    plan = Plan(
        prompts={"complete": [mini.encode("x = 1\n")], "edit": [mini.encode("y = 2\n")]},
        batches=(1,), policies=policies_of((), ()), turns=2, params=replace(GREEDY, max_tokens=3),
    )  # fmt: skip
    used, own = [], mini.engine.budget_for
    for done in measure(mini, plan):
        assert mini.engine.budget_for == own  # given back after every turn
        if isinstance(done, Cell):
            used.append(done)
    assert [cell.kind for cell in used] == ["complete", "edit"]


def test_a_controller_steers_and_hears_alone(mini) -> None:
    own, listeners = mini.engine.budget_for.__self__, list(mini.engine.listeners)
    with steered(mini) as first:
        assert mini.engine.budget_for == first.budget_for
        assert [one.__self__ for one in mini.engine.listeners] == [first]
        with steered(mini) as second:
            assert [one.__self__ for one in mini.engine.listeners] == [second]
        assert second is not first
    with steered(mini, first) as again:
        assert again is first
        assert mini.engine.budget_for == first.budget_for
    assert mini.engine.budget_for.__self__ is own
    assert mini.engine.listeners == listeners


def test_policies_are_off_automatic_and_every_drafter_at_every_length() -> None:
    names = [policy.name for policy in policies_of(("a", "b"), (1, 4))]
    assert names == [OFF, AUTOMATIC, "a k=1", "a k=4", "b k=1", "b k=4"]
    assert policies_of(("a",), (4,))[-1].speculation == Speculation(drafter="a", k=4)


def test_turns_go_on_where_the_last_one_ended() -> None:
    prompts = [[1], [2], [3]]
    assert [pick(prompts, turn, 2) for turn in range(3)] == [[[1], [2]], [[3], [1]], [[2], [3]]]
    assert pick(prompts, 0, 7) == [[1], [2], [3], [1], [2], [3], [1]]


def cell_of(**speeds: list[float]) -> Cell:
    return Cell(
        "edit",
        4,
        {name: [run_at(s) for s in own] for name, own in speeds.items()},
        {name: run_at(30) for name in speeds},
    )


def test_findings_hold_and_fail() -> None:
    def verdicts(cell: Cell) -> list[bool]:
        return [finding.holds for finding in findings([cell])]

    assert verdicts(cell_of(off=[50, 50], auto=[50, 49])) == [True, True]
    assert verdicts(cell_of(off=[50, 50], auto=[48, 48])) == [False, True]
    fixed = {"d k=4": [100.0, 100.0]}
    assert verdicts(cell_of(off=[50, 50], auto=[96, 96], **fixed)) == [True, True, True]
    assert verdicts(cell_of(off=[50, 50], auto=[90, 90], **fixed)) == [True, False, True]
    forked = cell_of(off=[50], auto=[60])
    forked.runs[AUTOMATIC] = [run_at(60, text=2)]
    assert verdicts(forked) == [True, False]


def test_a_report_holds_every_figure_below_its_setting(mini) -> None:
    setting = Setting.of(mini, "paceline bench offline")
    found = report([cell_of(off=[50, 40], auto=[60, 60])], setting)
    page = found.as_markdown()
    assert page.index(setting.cpu) < page.index("| edit | 4 | auto | 60.0 | 30.0 | 1.350 |")
    record = json.loads(json.dumps(found.as_record()))
    assert record["cells"][0]["policies"]["auto"]["tokens_per_s"] == pytest.approx([60, 60])
    assert record["setting"]["command"] == "paceline bench offline"
    assert [finding["holds"] for finding in record["findings"]] == [True, True]


def test_own_prompts_have_three_of_each_kind() -> None:
    found = by_kind(own_tasks(), KINDS, 9)
    assert {kind: len(set(prompts)) for kind, prompts in found.items()} == dict.fromkeys(KINDS, 3)
    with pytest.raises(UnknownNameError, match="Unknown kind of prompts 'poems'; known: chat"):
        by_kind(own_tasks(), ["poems"], 1)
    with pytest.raises(ConfigError, match="no prompt of kind 'edit'; add a --dataset"):
        by_kind([Task("chat", "p")], ["edit"], 1)


def test_records_of_data_sets() -> None:
    assert task_of({"task_id": "HumanEval/0", "prompt": "def f():"}) == Task("complete", "def f():")
    assert task_of({"category": "math_reasoning", "turns": ["1?"]}) == Task("maths", "1?")
    assert task_of({"category": "writing", "turns": ["a", "b"]}) == Task("chat", "a")
    assert task_of({"category": "translation", "turns": ["a"]}) is None
    assert task_of({"kind": "edit", "prompt": "p"}) == Task("edit", "p")
    assert task_of([]) is None


def test_a_data_set_that_is_none(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"kind": "edit", "prompt": "p"}\n\n{"x": 1}\n')
    assert dataset_tasks(path) == [Task("edit", "p")]
    path.write_text('{"x": 1}\n')
    with pytest.raises(ConfigError, match="holds no task"):
        dataset_tasks(path)
    with pytest.raises(ConfigError, match="Cannot read the data set"):
        dataset_tasks(tmp_path / "none.jsonl")
