"""A batched engine in discrete events: requests arrive, prompts are prefilled, passes take time.

Continuous batching as in `engine`: decoding requests first, then prompts in chunks, within the rows
of one pass. A pass takes what the cost curve says (times a seeded noise), and commits for each
decoding request one token and what the agreement lets stand of its draft.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paceline.plan.costs import DraftCosts, PassCosts
from paceline.plan.decision import Candidate, Decision, Mode, Outcome, Share, Step
from paceline.plan.traces import Agreement


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One request of the workload."""

    at_ms: float
    prompt_tokens: int
    output_tokens: int
    agreements: Mapping[str, Agreement]
    """By drafter: how its drafts fare on this request."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What is simulated."""

    target: PassCosts
    drafts: Mapping[str, DraftCosts]
    max_requests: int = 16
    max_rows: int = 512
    noise: float = 0.0
    """Standard deviation of the logarithm of a pass's time."""


class Policy(Protocol):
    """Decides what is drafted; the controller is one."""

    def decide(self, requests: Sequence[Candidate], prefill_rows: int = 0) -> Decision:
        """Before a step."""

    def observe(self, step: Step) -> None:
        """After it."""

    def forget(self, request_id: str) -> None:
        """A request ended."""


@dataclass(frozen=True)
class FixedLength:
    """The policy of other engines: k tokens, always; k = 0 is plain decoding."""

    drafter: str
    k: int

    def decide(self, requests: Sequence[Candidate], prefill_rows: int = 0) -> Decision:
        """k for each request, as far as it has room."""
        shares = {r.id: Share(self.drafter, min(self.k, r.room)) for r in requests}
        shares = {name: share for name, share in shares.items() if share.k > 0}
        mode = Mode.SPECULATE if shares else Mode.PLAIN
        return Decision(shares=shares, mode=mode, reason="fixed", speedup=1.0, step_ms=0.0)

    def observe(self, step: Step) -> None:
        """Nothing is learnt."""

    def forget(self, request_id: str) -> None:
        """Nothing was kept."""


@dataclass
class Running:
    """A request in the engine."""

    id: str
    arrival: Arrival
    prefilled: int = 0
    committed: int = 0
    first_ms: float = 0.0

    @property
    def decodes(self) -> bool:
        """Whether its prompt is done."""
        return self.prefilled >= self.arrival.prompt_tokens

    @property
    def context_tokens(self) -> int:
        """Keys and values that a pass reads for it."""
        return self.prefilled + self.committed


@dataclass(frozen=True)
class Served:
    """One finished request."""

    arrival: Arrival
    first_ms: float
    """When its first token was out."""
    end_ms: float

    @property
    def ttft_ms(self) -> float:
        """From arrival to the first token."""
        return self.first_ms - self.arrival.at_ms

    @property
    def latency_ms(self) -> float:
        """From arrival to the last token."""
        return self.end_ms - self.arrival.at_ms

    @property
    def ms_per_token(self) -> float:
        """Decode time over the tokens after the first; a burst of tokens is no gap."""
        return (self.end_ms - self.first_ms) / max(1, self.arrival.output_tokens - 1)


@dataclass(frozen=True)
class Log:
    """One step of the simulated engine."""

    end_ms: float
    decoding: int
    committed: int
    drafted: int
    mode: Mode
    reason: str
    step_ms: float


@dataclass
class Simulation:
    """The engine's state; `run` drives it to the end."""

    machine: Machine
    policy: Policy
    rng: random.Random
    clock_ms: float = 0.0
    waiting: deque[Running] = field(default_factory=deque)
    running: list[Running] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)

    def run(self, arrivals: Sequence[Arrival]) -> None:
        """Serve them all."""
        queue = [(a.at_ms, index, a) for index, a in enumerate(arrivals)]
        heapq.heapify(queue)
        while queue or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.clock_ms = max(self.clock_ms, queue[0][0])
            while queue and queue[0][0] <= self.clock_ms:
                _, index, arrival = heapq.heappop(queue)
                self.waiting.append(Running(f"r{index:06}", arrival))
            self.step()

    def step(self) -> None:
        """One pass over what runs."""
        while self.waiting and len(self.running) < self.machine.max_requests:
            self.running.append(self.waiting.popleft())
        decoding = [request for request in self.running if request.decodes]
        chunks = self._chunks(self.machine.max_rows - len(decoding))
        prefill_rows = sum(chunks.values())
        decision = self.policy.decide([candidate(r) for r in decoding], prefill_rows)
        outcomes, draft_ms = self._draft(decoding, decision)
        rows = len(decoding) + prefill_rows + sum(outcome.proposed for outcome in outcomes)
        context = sum(request.context_tokens for request in decoding)
        pace = self.rng.lognormvariate(0, self.machine.noise) if self.machine.noise else 1.0
        pass_ms = pace * self.machine.target.ms(rows, context)
        self.clock_ms += pass_ms + sum(draft_ms.values())
        step = Step(
            rows=rows,
            pass_ms=pass_ms,
            draft_ms=draft_ms,
            outcomes=outcomes,
            prefill_rows=prefill_rows,
        )
        self.policy.observe(step)
        self._commit(decoding, outcomes, chunks)
        self._log(decision, step, len(decoding))

    def _chunks(self, rows: int) -> dict[str, int]:
        """Rows of each prompt in this pass, first come first."""
        chunks = {}
        for request in self.running:
            left = min(request.arrival.prompt_tokens - request.prefilled, rows)
            if left > 0:
                chunks[request.id] = left
                rows -= left
        return chunks

    def _draft(
        self, decoding: Sequence[Running], decision: Decision
    ) -> tuple[list[Outcome], dict[str, float]]:
        """What stands of every draft, and what drafting takes."""
        outcomes, lengths = [], dict[str, list[tuple[int, int]]]()
        for request in decoding:
            share = decision.shares.get(request.id, Share("", 0))
            accepted = 0
            if share.k:
                agreement = request.arrival.agreements[share.drafter]
                accepted = agreement.accepted(request.committed, share.k, self.rng)
                lengths.setdefault(share.drafter, []).append((share.k, request.context_tokens))
            outcomes.append(Outcome(request.id, share.k, accepted))
        times = {}
        for name, drafts in lengths.items():
            context = sum(tokens for _, tokens in drafts)
            times[name] = self.machine.drafts[name].ms([k for k, _ in drafts], context)
        return outcomes, times

    def _commit(
        self, decoding: Sequence[Running], outcomes: Sequence[Outcome], chunks: Mapping[str, int]
    ) -> None:
        """Advance every request; a prompt's last chunk gives the first token."""
        for request in self.running:
            request.prefilled += chunks.get(request.id, 0)
            if request.id in chunks and request.decodes:
                request.committed, request.first_ms = 1, self.clock_ms
        for request, outcome in zip(decoding, outcomes, strict=True):
            request.committed += outcome.accepted + 1
        for request in list(self.running):
            if request.committed >= request.arrival.output_tokens:
                self.running.remove(request)
                self.policy.forget(request.id)
                self.served.append(Served(request.arrival, request.first_ms, self.clock_ms))

    def _log(self, decision: Decision, step: Step, decoding: int) -> None:
        accepted = sum(outcome.accepted for outcome in step.outcomes)
        drafted = sum(outcome.proposed for outcome in step.outcomes)
        step_ms = step.pass_ms + sum(step.draft_ms.values())
        self.logs.append(
            Log(
                self.clock_ms,
                decoding,
                decoding + accepted,
                drafted,
                decision.mode,
                decision.reason,
                step_ms,
            )
        )


def candidate(request: Running) -> Candidate:
    """The request as the policy sees it."""
    return Candidate(
        id=request.id,
        drafters=tuple(request.arrival.agreements),
        room=max(0, request.arrival.output_tokens - request.committed - 1),
        context_tokens=request.context_tokens,
    )


def simulate(
    arrivals: Sequence[Arrival], machine: Machine, policy: Policy, seed: int = 0
) -> Simulation:
    """Serve the arrivals; the same seed gives the same events.

    One request of 101 tokens, plain passes of 10 ms and a prompt of one pass: 1010 ms, of which the
    first token takes 10 and each further one 10.
    """
    simulation = Simulation(machine, policy, random.Random(seed))
    simulation.run(arrivals)
    return simulation
