"""What one step costs besides the models: the engine's own overhead, phase by phase."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

from paceline.engine import LLM, scores
from paceline.errors import ConfigError
from paceline.models import LoadedModel
from paceline.sampling import to_laws
from paceline.types import SamplingParams, Speculation, StepStats

WARM_UP_STEPS = 8


@dataclass(frozen=True)
class Spread:
    """Times of one phase over many steps."""

    median_ms: float
    p90_ms: float

    @classmethod
    def of(cls, seconds: list[float]) -> Spread:
        """The median and the 90th percentile."""
        return cls(1e3 * median(seconds), 1e3 * quantiles(seconds, n=10)[-1])


@dataclass(frozen=True, kw_only=True)
class StepOverhead:
    """Time of decode steps at batch 1, the models' passes and `to_laws` left out."""

    drafter: str
    k: int
    steps: int
    phases: dict[str, Spread]
    """By phase of the step, without the model in `forward` and the draft model in `propose`."""
    overhead: Spread
    """The whole step, with what lies between its phases."""

    def as_record(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return asdict(self)


def measure_step(
    llm: LLM, prompt: str, params: SamplingParams, drafter: str, k: int
) -> StepOverhead:
    """Generate once and measure every step that drafted k tokens, after a few to warm up.

    Raises:
        ConfigError: fewer than ten steps drafted k tokens.
    """
    found: list[StepStats] = []
    samples: dict[str, list[float]] = defaultdict(list)
    speculation = Speculation(drafter=drafter, k=k)
    llm.engine.listeners.append(found.append)
    try:
        with (
            excluded(llm.engine.model) as excluded_s,
            llm.stream(prompt, params, speculation=speculation) as stream,
        ):
            for step, wall_s in enumerate(wall_times(iter(stream))):
                stats, left_out_s = found.pop(), dict(excluded_s)
                excluded_s.clear()
                if step < WARM_UP_STEPS or stats.prefill_rows or stats.proposed != k:
                    continue
                samples["overhead"].append(wall_s - sum(left_out_s.values()))
                for phase, seconds in stats.seconds.items():
                    samples[phase].append(seconds - left_out_s.get(phase, 0.0))
    finally:
        llm.engine.listeners.remove(found.append)
    if len(samples["overhead"]) < 10:
        raise ConfigError(
            f"Only {len(samples['overhead'])} steps of the drafter '{drafter}' drafted {k} tokens;"
            " ask for more tokens."
        )
    overhead = samples.pop("overhead")
    return StepOverhead(
        drafter=drafter,
        k=k,
        steps=len(overhead),
        phases={phase: Spread.of(seconds) for phase, seconds in samples.items()},
        overhead=Spread.of(overhead),
    )


def wall_times(steps: Iterator[object]) -> Iterator[float]:
    """Seconds each item took to come."""
    while True:
        start = time.perf_counter()
        if next(steps, None) is None:
            return
        yield time.perf_counter() - start


@contextmanager
def excluded(target: LoadedModel) -> Iterator[dict[str, float]]:
    """Yield seconds spent in models' passes and `to_laws`, by the step's phase they fall in."""
    seconds: dict[str, float] = defaultdict(float)

    def timed(function: Callable[..., Any], phase_of: Callable[..., str]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[phase_of(*args)] += time.perf_counter() - start

        return call

    def model_phase(model: LoadedModel, *_: object) -> str:
        return "forward" if model is target else "propose"

    asking = ["propose"]  # drafters ask for laws there, the engine in `target_laws`

    def verifying(*args: Any) -> Any:
        asking[0] = "laws"
        try:
            return original_target_laws(*args)
        finally:
            asking[0] = "propose"

    original_target_laws = scores.target_laws
    laws = timed(to_laws, lambda *_: asking[0])
    with ExitStack() as stack:
        forward = timed(LoadedModel.forward, model_phase)
        stack.enter_context(patch.object(LoadedModel, "forward", forward))
        for name, original, stand_in in (
            ("to_laws", to_laws, laws),
            ("target_laws", original_target_laws, verifying),
        ):
            for module in [m for m in sys.modules.values() if vars(m).get(name) is original]:
                stack.enter_context(patch.object(module, name, stand_in))
        yield seconds
