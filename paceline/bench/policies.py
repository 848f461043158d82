"""Policies of drafting beside each other: off, automatic and fixed lengths, by turns in one run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import median

from paceline.bench.decoding import Run, decodes, running
from paceline.bench.side_by_side import side_by_side
from paceline.bench.steered import new_wheel
from paceline.engine import LLM
from paceline.plan.beta import Interval
from paceline.plan.workload import Percentiles
from paceline.types import AUTO, SamplingParams, Speculation, StepStats

OFF, AUTOMATIC = "off", "auto"


@dataclass(frozen=True)
class Policy:
    """How drafting is asked for, and what it is called."""

    name: str
    speculation: Speculation


def policies_of(drafts: Sequence[str], lengths: Sequence[int]) -> list[Policy]:
    """Off, automatic, and every drafter at every fixed length."""
    fixed = [
        Policy(f"{name} k={k}", Speculation(drafter=name, k=k)) for name in drafts for k in lengths
    ]
    return [Policy(OFF, Speculation(k=0)), Policy(AUTOMATIC, Speculation(k=AUTO)), *fixed]


@dataclass
class Cell:
    """One kind of prompts at one batch size: the runs of each policy, turn by turn."""

    kind: str
    batch: int
    runs: dict[str, list[Run]] = field(default_factory=dict)
    warm_up: dict[str, Run] = field(default_factory=dict)
    """Each policy's first run, by a controller that knew nothing; not among the others."""

    def ratios(self, policy: str, base: str = OFF) -> list[float]:
        """Speed over the other policy's, turn by turn."""
        pairs = zip(self.runs[policy], self.runs[base], strict=True)
        return [own.tokens_per_s / other.tokens_per_s for own, other in pairs]

    def tokens_per_s(self, policy: str) -> float:
        """The median over turns."""
        return median(run.tokens_per_s for run in self.runs[policy])

    def latency(self, policy: str) -> tuple[Percentiles, Percentiles]:
        """TTFT and milliseconds per token, over all requests of all turns."""
        runs = self.runs[policy]
        return (
            Percentiles.of([ms for run in runs for ms in run.ttft_ms]),
            Percentiles.of([ms for run in runs for ms in run.ms_per_token]),
        )

    @property
    def best_fixed(self) -> str:
        """The quickest of the policies that do not adapt."""
        fixed = [name for name in self.runs if name != AUTOMATIC]
        return max(fixed, key=self.tokens_per_s)

    @property
    def same_text(self) -> bool:
        """Whether every policy wrote what plain decoding wrote, in every turn."""
        return all(
            own.texts == plain.texts
            for runs in self.runs.values()
            for own, plain in zip(runs, self.runs[OFF], strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is run."""

    prompts: Mapping[str, Sequence[Sequence[int]]]
    """Kind -> ids of its prompts."""
    batches: Sequence[int]
    policies: Sequence[Policy]
    turns: int
    """Counted ones; one more goes before them."""
    params: SamplingParams

    @property
    def runs(self) -> int:
        """How many batches will be run."""
        cells = len(self.prompts) * len(self.batches)
        return cells * len(self.policies) * (self.turns + 1)


def measure(llm: LLM, plan: Plan) -> Iterator[Cell | int]:
    """Each cell when it is done, and after every turn how many runs it had.

    A turn's policies go side by side, token by token. Every policy has a controller of its own in
    every cell. It starts anew with the cell's first turn, which is told apart, and keeps what it
    learns, as a server does; of texts, no run remembers anything of another.
    """
    for kind, prompts in plan.prompts.items():
        for batch in plan.batches:
            cell = Cell(kind, batch, {policy.name: [] for policy in plan.policies})
            wheels = {policy.name: new_wheel(llm) for policy in plan.policies}
            for turn in range(plan.turns + 1):
                group = pick(prompts, turn, batch)
                runs = {
                    policy.name: running(llm, group, plan.params, policy.speculation)
                    for policy in by_turns(plan.policies, turn)
                }
                found = side_by_side(llm, runs, wheels, decoded)
                for policy in plan.policies:
                    if turn:
                        cell.runs[policy.name].append(found[policy.name])
                    else:
                        cell.warm_up[policy.name] = found[policy.name]
                yield len(runs)
            yield cell


def by_turns(policies: Sequence[Policy], turn: int) -> list[Policy]:
    """In their order, and every other turn the other way round."""
    return list(reversed(policies)) if turn % 2 else list(policies)


def decoded(step: StepStats) -> int:
    """Tokens of the decode phase."""
    return step.committed if decodes(step) else 0


def pick(prompts: Sequence[Sequence[int]], turn: int, batch: int) -> list[Sequence[int]]:
    """`batch` prompts, over and over, each turn going on where the one before it ended."""
    start = turn * batch % len(prompts)
    return list(islice(cycle(prompts), start, start + batch))


def median_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The median and the order statistics that hold the true one with probability `level`.

    From the binomial law of how many values lie below it; of 20 values the 6th and the 15th. Where
    there are too few for the level (fewer than 6 for .95) the whole range is given.
    """
    ordered, count = sorted(values), len(values)
    below, rank = 0.0, 0
    while rank < count // 2:
        below += math.comb(count, rank) / 2**count
        if below > (1 - level) / 2:
            break
        rank += 1
    low = max(0, rank - 1)
    return Interval(ordered[low], median(ordered), ordered[count - 1 - low])
