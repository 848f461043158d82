"""A stream that changes from one kind of text to another: is the controller soon right again?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from paceline.bench.decoding import Run, Running, Timed, decode_phase, generate, generating
from paceline.bench.offline import NEAR_BEST
from paceline.bench.policies import AUTOMATIC, Cell, Policy, by_turns, median_interval, pick
from paceline.bench.setting import BenchReport, Chart, Finding, Setting, Table
from paceline.bench.side_by_side import side_by_side
from paceline.bench.steered import new_wheel
from paceline.engine import LLM
from paceline.types import SamplingParams

FIRST, LAST = 20, 40
"""The passes after the change that count, both included."""
BEFORE = 2
"""Requests of the first kind, one after the other."""


@dataclass(frozen=True, kw_only=True)
class ChangePlan:
    """What is run."""

    kinds: tuple[str, str]
    """Before and after the change."""
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]
    policies: Sequence[Policy]
    turns: int
    params: SamplingParams

    @property
    def runs(self) -> int:
        """How many streams will be run."""
        return self.turns * len(self.policies)


def measure_change(llm: LLM, plan: ChangePlan) -> Iterator[Cell | int]:
    """After every turn how many streams it had, at last the cell of passes 20 to 40 after a change.

    After the change a turn's streams go side by side, pass by pass.
    """
    cell = Cell(" → ".join(plan.kinds), 1, {policy.name: [] for policy in plan.policies})
    for turn in range(plan.turns):
        policies = by_turns(plan.policies, turn)
        runs = {policy.name: stream(llm, plan, policy, turn) for policy in policies}
        wheels = {policy.name: new_wheel(llm) for policy in policies}
        for name, run in side_by_side(llm, runs, wheels, lambda _: 1).items():
            cell.runs[name].append(run)
        yield len(runs)
    yield cell


def stream(llm: LLM, plan: ChangePlan, policy: Policy, turn: int) -> Running:
    """Requests of the first kind at once, then of the second step by step, until there are passes
    enough. The run is of the passes that count; its texts are those before the change.
    """
    own = plan.params, policy.speculation
    outputs = [generate(llm, [ids], *own)[0] for ids in pick(plan.before, turn, BEFORE)]
    heard: list[Timed] = []
    for ids in islice(cycle(plan.after), turn % len(plan.after), None):
        yield from generating(llm, [ids], *own, lambda *one: heard.append(one))
        passes = decode_phase(heard)
        if len(passes) >= LAST:
            break
    steps, times_ms = zip(*passes[FIRST - 1 : LAST], strict=True)
    return Run(
        tokens=sum(step.committed for step in steps),
        decode_ms=sum(times_ms),
        draft_prefill_ms=0.0,
        ttft_ms=(),
        ms_per_token=(),
        steps=steps,
        texts=tuple(output.token_ids for output in outputs),
        requests=tuple(output.request_id for output in outputs),
    )


def report_change(cell: Cell, setting: Setting) -> BenchReport:
    """A row a policy, and whether the automatic one is near the best fixed one."""
    rows, best = [], cell.best_fixed
    shares = {name: median_interval(cell.ratios(name, best)) for name in cell.runs}
    for name, share in shares.items():
        figures = (f"{cell.tokens_per_s(name):.1f}", f"{share.middle:.3f}")
        rows.append((name, *figures, f"{share.low:.3f} - {share.high:.3f}"))
    own = shares[AUTOMATIC]
    where = f"passes {FIRST} to {LAST} after the change {cell.kind}"
    findings = (
        Finding(
            f"best k, {where}: {own.middle:.3f} of the best fixed one, {best}"
            f" (95 %: {own.low:.3f} to {own.high:.3f})",
            own.middle >= NEAR_BEST,
        ),
        Finding("same text before the change under every policy", cell.same_text),
    )
    title = f"Decoding in {where}, medians over {len(cell.runs[AUTOMATIC])} streams"
    record = {name: [run.tokens_per_s for run in runs] for name, runs in cell.runs.items()}
    return BenchReport(
        "A stream that changes",
        setting,
        (Table(title, ("policy", "tokens/s", f"x {best}", "95 %"), rows),),
        findings,
        ("Every stream begins with a controller that has learnt nothing.",),
        {"change": cell.kind, "passes": [FIRST, LAST], "tokens_per_s": record},
        (Chart(title, f"x {best}", [cell.kind], {n: [s] for n, s in shares.items()}, base=1.0),),
    )
