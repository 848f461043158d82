"""Drafters beside each other on prompts of several kinds, against plain decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paceline.bench.decoding import at_once, generating
from paceline.bench.setting import BenchReport, Chart, Setting, Table
from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.models.progress import Report
from paceline.plan.beta import Interval
from paceline.types import Output, SamplingParams, Speculation, StepStats


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """One drafter on the prompts of one kind, at batch 1; prefill passes are left out."""

    drafter: str
    kind: str
    tokens_per_pass: float
    per_position: tuple[float, ...]
    """P(depth j accepted | proposed, and all before it accepted)."""
    draft_ms: float
    """Of a pass: proposing, and learning what became of it."""
    tokens_per_s: float
    speedup: float
    """Over plain decoding of the same prompts."""
    same_text: bool
    """Whether each text is that of plain decoding: it must be, unless the law alone is kept."""

    def as_record(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return asdict(self)


@dataclass
class Runs:
    """The decoding of some prompts with one drafter."""

    passes: int = 0
    committed: int = 0
    decode_s: float = 0.0
    draft_s: float = 0.0
    reached: tuple[int, ...] = ()
    survived: tuple[int, ...] = ()
    texts: tuple[tuple[int, ...], ...] = ()

    def add(self, output: Output, steps: Sequence[StepStats]) -> None:
        """Take in one output and the steps that decoded it."""
        counts = output.counts
        self.passes += counts.passes
        self.committed += counts.committed
        self.decode_s += sum(sum(step.seconds.values()) for step in steps)
        self.draft_s += sum(step.seconds["propose"] + step.seconds["observe"] for step in steps)
        self.reached = added(self.reached, counts.reached)
        self.survived = added(self.survived, counts.survived)
        self.texts += (output.token_ids,)

    def against(self, plain: Runs, drafter: str, kind: str) -> Drafted:
        """What it comes to beside plain decoding."""
        tokens_per_s = self.committed / self.decode_s
        return Drafted(
            drafter=drafter,
            kind=kind,
            tokens_per_pass=self.committed / self.passes,
            per_position=tuple(
                s / r if r else 0.0 for s, r in zip(self.survived, self.reached, strict=True)
            ),
            draft_ms=1e3 * self.draft_s / self.passes,
            tokens_per_s=tokens_per_s,
            speedup=tokens_per_s / (plain.committed / plain.decode_s),
            same_text=self.texts == plain.texts,
        )


def measure_drafters(
    llm: LLM,
    drafters: Sequence[str],
    kinds: Mapping[str, Sequence[Sequence[int]]],
    params: SamplingParams,
    report: Report,
) -> list[Drafted]:
    """Run every prompt plainly and with each drafter in turn, so that slow minutes meet all.

    Args:
        kinds: kind -> the ids of its prompts.

    Raises:
        ConfigError: a prompt ends before any pass could draft.
    """
    found, done = list[Drafted](), 0
    total = sum(map(len, kinds.values())) * (len(drafters) + 1)
    for kind, prompts in kinds.items():
        plain, runs = Runs(), {name: Runs() for name in drafters}
        for prompt in prompts:
            for own, speculation in (
                (plain, Speculation(k=0)),
                *((runs[name], Speculation(drafter=name)) for name in drafters),
            ):
                own.add(*decode(llm, prompt, params, speculation))
                report(done := done + 1, total)
        if not plain.passes:
            raise ConfigError(f"The prompts of kind '{kind}' end at once; raise --max-tokens.")
        found += [own.against(plain, name, kind) for name, own in runs.items()]
    return found


def decode(
    llm: LLM, prompt: Sequence[int], params: SamplingParams, speculation: Speculation
) -> tuple[Output, list[StepStats]]:
    """One prompt's output, and the statistics of its decoding passes."""
    steps: list[StepStats] = []
    (output,) = at_once(
        generating(llm, [prompt], params, speculation, lambda step, _: steps.append(step))
    )
    return output, [step for step in steps if not step.prefill_rows]


def added(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Sums place by place; what is missing is 0."""
    longer = max(len(left), len(right))
    pairs = zip(
        left + (0,) * (longer - len(left)), right + (0,) * (longer - len(right)), strict=True
    )
    return tuple(a + b for a, b in pairs)


def report(measured: Sequence[Drafted], setting: Setting) -> BenchReport:
    """A row a kind and drafter."""
    header = ("kind", "drafter", "tokens/pass", "acceptance by depth", "draft ms", "tok/s", "×")
    rows = [
        (
            each.kind,
            each.drafter,
            f"{each.tokens_per_pass:.2f}",
            " ".join(f"{rate:.2f}" for rate in each.per_position[:6]),
            f"{each.draft_ms:.2f}",
            f"{each.tokens_per_s:.1f}",
            f"{each.speedup:.2f}" + ("" if each.same_text else " (other text)"),
        )
        for each in measured
    ]
    record = {"drafters": [each.as_record() for each in measured]}
    table = Table("Drafters beside plain decoding, one request at a time", header, rows)
    return BenchReport("Drafters", setting, (table,), (), (), record, charts(measured))


def charts(measured: Sequence[Drafted]) -> tuple[Chart, Chart]:
    """Speed and tokens per pass, by kind."""
    kinds = list(dict.fromkeys(each.kind for each in measured))
    by_drafter: dict[str, list[Drafted]] = {}
    for each in measured:
        by_drafter.setdefault(each.drafter, []).append(each)

    def series(value: Callable[[Drafted], float]) -> dict[str, list[Interval]]:
        return {
            name: [Interval(value(one), value(one), value(one)) for one in own]
            for name, own in by_drafter.items()
        }

    return (
        Chart("Speed over plain decoding", "x plain", kinds, series(lambda one: one.speedup), 1.0),
        Chart("Tokens per pass", "tokens", kinds, series(lambda one: one.tokens_per_pass)),
    )
