"""The engine's and the server's numbers for Prometheus; docs/server.md explains each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import nan

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from paceline.engine import Engine
from paceline.metrics.drift import Drift
from paceline.types import FinishReason, Output, SpeculationCounts, StepStats

# They would be a second series for each counter, which nothing reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

FAST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
SLOW_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Meters:
    """All metrics of one server, in a registry of their own.

    `name_of` gives a drafter's public name. Steps are counted on the engine's thread, requests on
    the server's; the client library locks. `stepped` is to be a listener of the engine.
    """

    def __init__(self, engine: Engine, name_of: Callable[[str], str]) -> None:
        self.registry = CollectorRegistry()
        self._name_of = name_of
        self._drifts = defaultdict[str, Drift](Drift)
        ProcessCollector(registry=self.registry)
        self._count_steps()
        self._count_drafts()
        self._count_requests()
        self._gauge("kv_blocks", "Blocks of the cache.").set(engine.pool.num_blocks)
        live = {
            "kv_blocks_used": ("Blocks in use.", lambda: engine.pool.used_count),
            "requests_running": ("Outputs in the batch.", lambda: engine.running_count),
            "requests_waiting": ("Outputs that wait for a place.", lambda: engine.waiting_count),
        }
        for name, (what, read) in live.items():
            self._gauge(name, what).set_function(read)

    def stepped(self, stats: StepStats) -> None:
        """Count one engine step."""
        self._steps.inc()
        # Every drafted token is scored by the pass it was drafted for.
        for counter, tokens in (
            (self._proposed, stats.proposed),
            (self._verified, stats.proposed),
            (self._accepted, stats.accepted),
            (self._committed, stats.committed),
            (self._prefilled, stats.prefill_rows),
            (self._preempted, stats.preempted),
        ):
            counter.inc(tokens)
        for phase, seconds in stats.seconds.items():
            self._phase_s.labels(phase).inc(seconds)
        decoding = stats.verify_rows - stats.proposed
        self._draft_length.set(stats.proposed / decoding if decoding else 0.0)
        if stats.drafts:
            self._speedup.set(nan if stats.speedup is None else stats.speedup)

    def arrived(self, gap_s: float, tokens: int, first: bool) -> None:
        """Time the tokens of one delta, `gap_s` after the one before or after the request."""
        if first:
            self._first_s.observe(gap_s)
            return
        for _ in range(tokens):
            self._between_s.observe(gap_s / tokens)

    def ended(self, output: Output, seconds: float) -> None:
        """Count a whole output."""
        self.finished(output.finish_reason)
        self._request_s.observe(seconds)
        self._prompt.inc(output.prompt_tokens if output.choice == 0 else 0)
        self._cached.inc(output.cached_tokens if output.choice == 0 else 0)
        for drafter, counts in output.by_drafter.items():
            self._count(self._name_of(drafter), counts)

    def finished(self, reason: FinishReason) -> None:
        """Count the end of an output."""
        self._finished.labels(reason.value).inc()

    def replied(self, path: str, status: int) -> None:
        """Count an HTTP reply."""
        self._replies.labels(path, str(status)).inc()

    def page(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self.registry)

    def _count(self, name: str, counts: SpeculationCounts) -> None:
        """Count one drafter's part in an output."""
        self._passes.labels(name).inc(counts.passes)
        self._pass_tokens.labels(name).inc(counts.committed)
        for position, reached in enumerate(counts.reached):
            labels = name, str(position)
            self._reached.labels(*labels).inc(reached)
            self._survived.labels(*labels).inc(counts.survived[position])
        self._watch(name, counts.proposed, counts.accepted)

    def _watch(self, name: str, proposed: int, accepted: int) -> None:
        if not proposed:
            return
        drift = self._drifts[name]
        drift.add(proposed, accepted)
        self._recent.labels(name).set(drift.recent.mean)
        self._usual.labels(name).set(drift.usual.mean)
        self._alarm.labels(name).set(drift.alarm)

    def _count_steps(self) -> None:
        self._steps = self._counter("steps", "Passes of the engine.")
        self._proposed = self._counter("proposed_tokens", "Tokens drafted.")
        self._verified = self._counter("verified_tokens", "Drafted tokens the target scored.")
        self._accepted = self._counter("accepted_tokens", "Drafted tokens the rule kept.")
        self._committed = self._counter("committed_tokens", "Tokens that reached users.")
        self._prefilled = self._counter("prefill_tokens", "Prompt tokens run.")
        self._preempted = self._counter("preemptions", "Outputs that gave up their blocks.")
        self._phase_s = self._counter("step_seconds", "Time in each phase of a step.", "phase")
        self._draft_length = self._gauge("draft_length", "Tokens drafted per decoding output.")
        self._speedup = self._gauge("estimated_speedup", "Of drafting, over plain decoding.")

    def _count_drafts(self) -> None:
        place = "drafter", "position"
        self._passes = self._counter("passes", "Passes of ended outputs.", "drafter")
        self._pass_tokens = self._counter("pass_tokens", "Tokens of those passes.", "drafter")
        self._reached = self._counter("position_reached", "Passes that tried a position.", *place)
        self._survived = self._counter("position_accepted", "Passes that kept it.", *place)
        self._recent = self._gauge("acceptance_recent", "Rate of late.", "drafter")
        self._usual = self._gauge("acceptance_usual", "Rate over long.", "drafter")
        self._alarm = self._gauge("acceptance_drift_alarm", "1: recent fell.", "drafter")

    def _count_requests(self) -> None:
        self._finished = self._counter("outputs", "Outputs ended.", "finish_reason")
        self._replies = self._counter("http_replies", "HTTP replies.", "path", "status")
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of ended requests.")
        self._cached = self._counter("prefix_hit_tokens", "Those the prefix cache spared.")
        self._first_s = self._histogram("time_to_first_token", "From request to first.", SLOW_S)
        self._between_s = self._histogram("inter_token", "Per token after the first.", FAST_S)
        self._request_s = self._histogram("request", "From request to its end.", SLOW_S)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"paceline_{name}", what, labels, registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"paceline_{name}", what, labels, registry=self.registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        name = f"paceline_{name}_seconds"
        return Histogram(name, what, buckets=buckets, registry=self.registry)
