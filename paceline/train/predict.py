"""What a trained head is worth when it is served: measured costs beside its predicted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from paceline.config import EngineConfig, SchedulerConfig, SpeculationConfig
from paceline.engine import Engine
from paceline.models import LoadedModel
from paceline.plan.throughput import measured_speedup
from paceline.types import Request, SamplingParams, Speculation, StepStats

TOKENS = 48


@dataclass(frozen=True)
class Costs:
    """Medians of a served request's passes, in ms."""

    plain_pass_ms: float
    verify_pass_ms: float
    draft_ms: float

    def speedup(self, tokens_per_pass: float) -> float:
        """Over plain decoding, at batch 1."""
        return measured_speedup(
            tokens_per_pass, self.plain_pass_ms, self.verify_pass_ms, self.draft_ms
        )


def serve_costs(model: LoadedModel, draft: str, prompt: Sequence[int]) -> Costs:
    """Decode a few tokens after a prompt, plainly and with a drafter."""
    config = EngineConfig(
        scheduler=SchedulerConfig(max_num_requests=1),
        speculation=SpeculationConfig(drafts=(draft,)),
    )
    engine = Engine(model, config)
    plain = run(engine, prompt, Speculation(k=0))
    drafted = run(engine, prompt, Speculation())
    return Costs(
        median(sum(stats.seconds.values()) for stats in plain) * 1e3,
        median(sum(s.seconds.values()) - s.seconds["propose"] for s in drafted) * 1e3,
        median(s.seconds["propose"] + s.seconds["observe"] for s in drafted) * 1e3,
    )


def run(engine: Engine, prompt: Sequence[int], speculation: Speculation) -> list[StepStats]:
    """The statistics of one request's decoding passes."""
    found: list[StepStats] = []
    engine.listeners.append(found.append)
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    engine.add(Request(id="r", prompt_ids=tuple(prompt), params=params, speculation=speculation))
    while engine.has_work:
        engine.step()
    engine.take("r")
    engine.listeners.remove(found.append)
    return [stats for stats in found if not stats.prefill_rows]
