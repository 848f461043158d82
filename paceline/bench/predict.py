"""`bench predict`: is a cell's speed what the model says, from what other cells cost?

(a) Given the cell's own trace (rows and lengths of its steps), costs fitted to the other cells must
give its tokens per second. (b) Given the acceptance of half of the prompts, the other half's tokens
per second must lie in the stated interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from paceline.bench.calibrate import draft_costs
from paceline.bench.decoding import Run, run_batch
from paceline.bench.policies import pick
from paceline.bench.setting import BenchReport, Finding, Setting, Table
from paceline.engine import LLM
from paceline.plan.beta import Interval, predictive_interval
from paceline.plan.costs import CostCurve, DraftCosts, Pass, fit_costs
from paceline.types import SamplingParams, Speculation, StepStats

Name = tuple[str, int, int]
"""A cell's drafter, length and batch size."""

NEAR, NEAR_SHARE, LEVEL, INSIDE_SHARE = 0.1, 0.9, 0.9, 0.85


@dataclass(frozen=True)
class PredictCell:
    """A drafter at one length and batch size, run over each half of the prompts."""

    drafter: str
    k: int
    batch: int
    halves: tuple[tuple[Run, ...], tuple[Run, ...]]

    @property
    def steps(self) -> list[StepStats]:
        """All of them, but for those in which drafters read prompts."""
        return [step for half in self.halves for run in half for step in run.steps[1:]]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A cell beside what was predicted of it, in tokens per second."""

    drafter: str
    k: int
    batch: int
    measured: float
    from_trace: float
    second_half: float
    interval: Interval
    """For the second half, from the first's acceptance."""

    @property
    def error(self) -> float:
        """Of the prediction from the cell's own trace."""
        return abs(self.from_trace / self.measured - 1)


def run_cells(
    llm: LLM,
    prompts: Sequence[Sequence[int]],
    batches: Sequence[int],
    lengths: Sequence[int],
    params: SamplingParams,
    progress: Callable[[int, int], None],
) -> list[PredictCell]:
    """Each drafter at each length and batch size; progress(done, total) is told of runs.

    A cell's runs are spread over the whole time, so that a machine that is quicker at some times
    than at others is so for all cells alike.
    """
    middle = len(prompts) // 2
    names = [
        (drafter, k, batch)
        for batch in batches
        for drafter in llm.config.speculation.drafts
        for k in lengths
    ]
    runs: dict[Name, tuple[list[Run], list[Run]]] = {name: ([], []) for name in names}
    jobs = [
        ((place + 0.5) / len(groups), name, half, group)
        for name in names
        for half, own in enumerate((prompts[:middle], prompts[middle:]))
        for groups in [groups_of(own, name[2])]
        for place, group in enumerate(groups)
    ]
    for done, (_, name, half, group) in enumerate(sorted(jobs, key=lambda job: job[0]), 1):
        asked = Speculation(drafter=name[0], k=name[1])
        runs[name][half].append(run_batch(llm, group, params, asked))
        progress(done, len(jobs))
    return [PredictCell(*name, (tuple(a), tuple(b))) for name, (a, b) in runs.items()]


def groups_of(prompts: Sequence[Sequence[int]], batch: int) -> list[list[Sequence[int]]]:
    """Batches that hold every prompt, two at least."""
    count = max(2, -(-len(prompts) // batch))
    return [pick(prompts, turn, batch) for turn in range(count)]


def predict(cells: Sequence[PredictCell], sequential: Mapping[str, bool]) -> list[Prediction]:
    """Every cell from the others; `sequential` tells which drafters run passes of their own."""
    found = []
    for cell in cells:
        others = [other for other in cells if other is not cell]
        target = fit_costs(a_pass(step) for other in others for step in other.steps)
        own = [step for o in others if o.drafter == cell.drafter for step in o.steps]
        drafts = draft_costs([s for s in own if s.draft_ms], sequential[cell.drafter])
        found.append(predict_cell(cell, target, drafts))
    return found


def a_pass(step: StepStats) -> Pass:
    """The step as a cost is fitted to it; contexts by the hundred tokens, so that cells repeat."""
    context = sum(one.context_tokens for one in step.drafts)
    return Pass(step.verify_rows, round(context, -2), step.pass_ms)


def predict_cell(cell: PredictCell, target: CostCurve, drafts: DraftCosts) -> Prediction:
    """A cell from costs that were fitted without it."""
    steps = cell.steps
    times = {id(step): step_ms(step, target, drafts) for step in steps}
    first, second = ([s for run in half for s in run.steps[1:]] for half in cell.halves)
    own, others = map(tokens_per_pass, cell.halves)
    ahead = predictive_interval(own, len(others), LEVEL)
    per_token = speed(first, sum(times[id(step)] for step in first)) / ahead.middle
    error = min(0.5, target.error(LEVEL))
    return Prediction(
        drafter=cell.drafter,
        k=cell.k,
        batch=cell.batch,
        measured=speed(steps, sum(s.step_ms for s in steps)),
        from_trace=speed(steps, sum(times.values())),
        second_half=speed(second, sum(s.step_ms for s in second)),
        interval=Interval(
            max(0.0, ahead.low) * per_token / (1 + error),
            ahead.middle * per_token,
            ahead.high * per_token * (1 + error),
        ),
    )


def tokens_per_pass(half: Sequence[Run]) -> list[float]:
    """Of each text; a prompt that fills up a batch writes the same one again and tells nothing."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for run in half:
        text_of = dict(zip(run.requests, run.texts, strict=True))
        for step in run.steps[1:]:
            for one in step.drafts:
                found[text_of[one.request_id]].append(1 + one.accepted)
    return [mean(passes) for passes in found.values()]


def step_ms(step: StepStats, target: CostCurve, drafts: DraftCosts) -> float:
    """What a step of such rows and lengths should take."""
    context = sum(one.context_tokens for one in step.drafts)
    lengths = [one.budget for one in step.drafts]
    return target.ms(step.verify_rows, context) + drafts.ms(lengths)


def speed(steps: Sequence[StepStats], ms: float) -> float:
    """Tokens per second of these steps in so much time."""
    return 1e3 * sum(step.committed for step in steps) / ms


def report(predictions: Sequence[Prediction], setting: Setting) -> BenchReport:
    """The table, and whether the model holds."""
    near = mean(one.error <= NEAR for one in predictions)
    inside = mean(one.second_half in one.interval for one in predictions)
    findings = (
        Finding(
            f"from its own trace {near:.0%} of {len(predictions)} cells are within {NEAR:.0%}"
            f" (wanted: {NEAR_SHARE:.0%})",
            near >= NEAR_SHARE,
        ),
        Finding(
            f"from half of the prompts {inside:.0%} of cells lie in the {LEVEL:.0%} interval"
            f" (wanted: {INSIDE_SHARE:.0%})",
            inside >= INSIDE_SHARE,
        ),
    )
    rows = [
        (
            *(one.drafter, str(one.k), str(one.batch), f"{one.measured:.1f}"),
            *(f"{one.from_trace:.1f}", f"{one.from_trace / one.measured - 1:+.1%}"),
            *(f"{one.second_half:.1f}", f"{one.interval.low:.1f} - {one.interval.high:.1f}"),
        )
        for one in predictions
    ]
    header = ("drafter", "k", "batch", "tokens/s", "predicted", "off by", "2nd half", "90 %")
    record: dict[str, Any] = {"cells": [asdict(one) for one in predictions]}
    table = Table("Measured and predicted", header, rows)
    return BenchReport("Prediction", setting, (table,), findings, (), record)
