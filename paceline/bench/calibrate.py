"""What passes and drafts take on this machine, and how drafts fare on given prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import median

from paceline.bench.decoding import Run, run_batch
from paceline.drafters import NOISE
from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.plan.belief import Prior
from paceline.plan.beta import Beta
from paceline.plan.costs import CostCurve, DraftCosts, Pass, fit_costs
from paceline.plan.estimators import Counts, alphas_by_position, constant_alpha
from paceline.plan.forecast import DrafterOnPaper
from paceline.plan.lengths import Costs
from paceline.plan.record import MeasuredPlan
from paceline.types import SamplingParams, Speculation, StepStats

ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
PASSES = 6
"""Of each number of rows."""
LENGTH = 8
"""Tokens that drafters are asked for, to see acceptance by position."""


@dataclass(frozen=True, kw_only=True)
class DrafterSeen:
    """One drafter on the prompts."""

    costs: DraftCosts
    counts: Counts
    asked: int
    """Times it was asked for a draft."""
    offered: int
    """Times it had one."""
    tokens_per_s: float
    """Of one request at a time, drafts of LENGTH."""

    @property
    def alphas(self) -> list[Beta]:
        """Acceptance by position; that of the first holds the times when there was no draft."""
        if not self.counts.reached:
            return [Beta.of(0, self.asked)]
        silent = self.asked - self.offered
        reached = (self.counts.reached[0] + silent, *self.counts.reached[1:])
        return alphas_by_position(Counts(reached, self.counts.survived))

    @property
    def on_paper(self) -> DrafterOnPaper:
        """As a controller starts with it."""
        alpha = min(0.99, max(0.01, constant_alpha(self.counts).mean))
        offers = min(1.0, max(0.01, self.offered / max(1, self.asked)))
        return DrafterOnPaper(self.costs, Prior(alpha=alpha, offers=offers))


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """All that a plan is made from."""

    model: str
    target: CostCurve
    drafters: Mapping[str, DrafterSeen]
    context_tokens: float
    """Of a request, in the middle of its output."""
    passes: Sequence[Pass] = field(default=(), repr=False)

    def costs(self, drafter: str) -> Costs:
        """What lengths are priced with."""
        draft = self.drafters[drafter].costs
        return Costs(target=self.target, draft=draft, context_tokens=self.context_tokens)

    @property
    def plan(self) -> MeasuredPlan:
        """As engines start with it."""
        papers = {name: seen.on_paper for name, seen in self.drafters.items()}
        return MeasuredPlan(self.model, self.target, papers)


def calibrate(
    llm: LLM, prompts: Sequence[Sequence[int]], batches: Sequence[int], tokens: int
) -> Iterator[Calibration | None]:
    """Measure; yield None after every run and the calibration in the end.

    The engine must have loaded the drafter NOISE beside those that are to be judged.
    """
    passes: list[Pass] = []
    for prompt in two_contexts(prompts):
        for rows in row_counts(llm, batches):
            passes += noise_passes(llm, prompt, rows)
            yield None
    seen: dict[str, DrafterSeen] = {}
    contexts: list[float] = []
    params = SamplingParams(temperature=0, max_tokens=tokens)
    for name in judged(llm):
        runs = []
        for group in groups(prompts, batches):
            runs.append(run_batch(llm, group, params, Speculation(drafter=name, k=LENGTH)))
            yield None
        seen[name] = judge(runs, name, llm.engine.drafters[name].needs.sequential)
        contexts += [one.context_tokens for run in runs for s in run.steps for one in s.drafts]
    yield Calibration(
        model=llm.model.name,
        target=fit_costs(passes),
        drafters=seen,
        context_tokens=median(contexts) if contexts else float(median(map(len, prompts))),
        passes=passes,
    )


def runs_of(llm: LLM, prompts: Sequence[Sequence[int]], batches: Sequence[int]) -> int:
    """How many runs a calibration takes."""
    passes = 2 * len(row_counts(llm, batches))
    return passes + len(judged(llm)) * len(groups(prompts, batches))


def judged(llm: LLM) -> list[str]:
    """The drafters that were loaded to be compared."""
    return [name for name in llm.config.speculation.drafts if name != NOISE]


def row_counts(llm: LLM, batches: Sequence[int]) -> list[int]:
    """Rows worth knowing: to those of the largest batch with drafts, within a pass."""
    most = min(max(16, 2 * max(batches)), llm.config.scheduler.max_rows)
    return [rows for rows in ROWS if rows <= most]


def two_contexts(prompts: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The shortest prompt and the longest, so that the cost of context can be told."""
    ordered = sorted(prompts, key=len)
    return [ordered[0], ordered[-1]]


def groups(prompts: Sequence[Sequence[int]], batches: Sequence[int]) -> list[list[Sequence[int]]]:
    """The prompts one at a time, then in batches of up to 4."""
    sizes = sorted({1, min(4, max(batches))})
    return [
        list(islice(cycle(prompts), start, start + size))
        for size in sizes
        for start in range(0, len(prompts), size)
    ]


def noise_passes(llm: LLM, prompt: Sequence[int], rows: int) -> list[Pass]:
    """Passes of so many rows over one request, everything but drafting counted."""
    params = SamplingParams(temperature=0, max_tokens=rows + PASSES, ignore_eos=True)
    asked = Speculation(drafter=NOISE, k=rows - 1)
    llm.engine.pool.forget_prefixes()
    found: list[Pass] = []
    heard: list[StepStats] = []
    llm.engine.listeners.append(heard.append)
    try:
        with llm.stream(prompt, params, speculation=asked) as stream:
            for _ in stream:
                if len(found) == PASSES + 1:
                    break
                step = heard.pop()
                if step.drafts and step.verify_rows == rows:
                    found.append(Pass(rows, step.drafts[0].context_tokens, step.pass_ms))
    finally:
        llm.engine.listeners.remove(heard.append)
    context = len(prompt)
    return [Pass(rows, context, one.ms) for one in found[1:]]


def judge(runs: Sequence[Run], name: str, sequential: bool) -> DrafterSeen:
    """A drafter's costs and acceptance, from runs of it alone; raises ConfigError for no step."""
    steps = [step for run in runs for step in run.steps[2:] if step.draft_ms]
    if not steps:
        raise ConfigError(f"The drafter '{name}' was never asked; give longer --max-tokens.")
    drafts = [one for step in steps for one in step.drafts if one.budget]
    counts = Counts.of((one.proposed, one.accepted) for one in drafts)
    return DrafterSeen(
        costs=draft_costs(steps, sequential),
        counts=counts,
        asked=len(drafts),
        offered=sum(one.proposed > 0 for one in drafts),
        tokens_per_s=alone_tokens_per_s(runs),
    )


def alone_tokens_per_s(runs: Sequence[Run]) -> float:
    """Over all runs of one request."""
    alone = [run for run in runs if len(run.texts) == 1]
    ms = sum(run.decode_ms for run in alone)
    return 1e3 * sum(run.tokens for run in alone) / ms if ms else 0.0


def draft_costs(steps: Sequence[StepStats], sequential: bool) -> DraftCosts:
    """By depth and request for a drafter that runs passes, else by request."""
    if not sequential:
        each = [sum(s.draft_ms.values()) / sum(d.budget > 0 for d in s.drafts) for s in steps]
        return DraftCosts(request_ms=median(each))
    passes = [
        Pass(len(s.drafts), 0, sum(s.draft_ms.values()) / max(d.budget for d in s.drafts))
        for s in steps
    ]
    return DraftCosts(passes=fit_costs(passes))
