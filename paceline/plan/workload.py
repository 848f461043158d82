"""Arrivals for simulations and benches, and what is read off a run: percentiles and goodput."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from paceline.errors import ConfigError
from paceline.plan.simulate import Arrival, Served, Simulation
from paceline.plan.traces import Agreement

SLOWEST_PER_S, FASTEST_PER_S = 1e-6, 1e9
"""The rates at which requests may arrive."""


def poisson_ms(count: int, requests_per_s: float, seed: int = 0) -> list[float]:
    """Arrival times[count] with exponential gaps."""
    return gamma_ms(count, requests_per_s, 1.0, seed)


def bursty_ms(
    count: int, requests_per_s: float, burstiness: float = 4.0, seed: int = 0
) -> list[float]:
    """Arrival times[count] whose gaps have a squared coefficient of variation of `burstiness`."""
    return gamma_ms(count, requests_per_s, 1 / burstiness, seed)


def gamma_ms(count: int, requests_per_s: float, shape: float, seed: int) -> list[float]:
    """Arrival times[count] with gamma gaps of mean 1 / rate; shape 1 is Poisson's.

    Raises:
        ConfigError: a rate that is not positive, or out of all measure.
    """
    if not SLOWEST_PER_S <= requests_per_s <= FASTEST_PER_S:
        raise ConfigError(
            f"Requests must arrive at a positive rate of {SLOWEST_PER_S:.0e} to "
            f"{FASTEST_PER_S:.0e} a second, not {requests_per_s:g}."
        )
    rng, at_ms, times = random.Random(seed), 0.0, []
    for _ in range(count):
        at_ms += rng.gammavariate(shape, 1e3 / (requests_per_s * shape))
        times.append(at_ms)
    return times


def workload(
    times_ms: Sequence[float],
    prompt_tokens: int,
    output_tokens: int,
    agreements: Sequence[Mapping[str, Agreement]],
) -> list[Arrival]:
    """A request for each time, the agreements taken in turn."""
    return [
        Arrival(
            at_ms=at_ms,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            agreements=agreements[index % len(agreements)],
        )
        for index, at_ms in enumerate(times_ms)
    ]


@dataclass(frozen=True)
class Percentiles:
    """Of one latency, in milliseconds."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Nearest ranks: p90 of 1 .. 10 is 9."""
        ordered = sorted(values)
        return cls(*(ordered[max(0, math.ceil(len(ordered) * q) - 1)] for q in (0.5, 0.9, 0.99)))


@dataclass(frozen=True, kw_only=True)
class Slo:
    """What a request must meet to count as good."""

    ttft_ms: float = math.inf
    ms_per_token: float = math.inf

    def met(self, served: Served) -> bool:
        """Whether both were kept."""
        return served.ttft_ms <= self.ttft_ms and served.ms_per_token <= self.ms_per_token


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run came to."""

    requests: int
    seconds: float
    tokens_per_s: float
    goodput_per_s: float
    """Requests per second that met the SLO."""
    ttft_ms: Percentiles
    ms_per_token: Percentiles
    latency_ms: Percentiles
    committed_per_pass: float
    """Tokens per decoding request and pass, prefill left out."""
    drafted_share: float
    """Of the decoding passes, those with drafts."""

    def as_record(self) -> dict[str, object]:
        """As plain values."""
        return asdict(self)


def report(run: Simulation, slo: Slo | None = None) -> Report:
    """Read off a finished run; raises ConfigError if it served nothing."""
    if not run.served:
        raise ConfigError("The simulation served no request; give it arrivals.")
    good = sum((slo or Slo()).met(served) for served in run.served)
    seconds = run.clock_ms / 1e3
    passes = [log for log in run.logs if log.decoding]
    return Report(
        requests=len(run.served),
        seconds=seconds,
        tokens_per_s=sum(served.arrival.output_tokens for served in run.served) / seconds,
        goodput_per_s=good / seconds,
        ttft_ms=Percentiles.of([served.ttft_ms for served in run.served]),
        ms_per_token=Percentiles.of([served.ms_per_token for served in run.served]),
        latency_ms=Percentiles.of([served.latency_ms for served in run.served]),
        committed_per_pass=sum(p.committed for p in passes)
        / max(1, sum(p.decoding for p in passes)),
        drafted_share=sum(p.drafted > 0 for p in passes) / max(1, len(passes)),
    )
