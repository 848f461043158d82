"""One step of the engine: schedule, draft, pack, forward, laws, verify, commit, observe."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from torch import Tensor

from paceline.cache import BlockPool, Slots
from paceline.drafters import LiveDrafter, Observation
from paceline.engine.scheduler import BudgetFor, Plan, Scheduler, Work
from paceline.errors import ConfigError
from paceline.runtime import Rows, Runner
from paceline.sampling import RowLaw, to_laws
from paceline.tree import NO_DRAFT, Draft, kv_moves
from paceline.types import Delta, StepStats
from paceline.verify import Verdict


class Clock:
    """Wall time by phase of one step."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase."""
        start = time.perf_counter()
        yield
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """The times since the last call."""
        seconds, self._seconds = self._seconds, {}
        return seconds


@dataclass(frozen=True, eq=False)
class Proposal:
    """One sequence's work and its draft, from propose to observe."""

    work: Work
    draft: Draft = NO_DRAFT

    @property
    def logit_count(self) -> int:
        """Rows of the pass whose laws belong to it."""
        return len(self.draft) + 1 if self.work.samples else 0


@dataclass(frozen=True, eq=False)
class Step:
    """The engine's parts, and the loop over them that reads like the paper."""

    scheduler: Scheduler
    runner: Runner
    pool: BlockPool
    drafters: Mapping[str, LiveDrafter]
    hidden_layers: tuple[int, ...] = ()
    clock: Clock = field(default_factory=Clock)

    def run(self, budget_for: BudgetFor) -> tuple[list[Delta], StepStats]:
        """Run one pass; return what it committed and its statistics."""
        with self.clock.phase("schedule"):
            plan = self.scheduler.schedule(budget_for)
        with self.clock.phase("propose"):
            proposals = self._propose(plan)
        with self.clock.phase("forward"):
            out = self.runner.forward([rows(p) for p in proposals], self.hidden_layers)
        sampled = [p for p in proposals if p.work.samples]
        with self.clock.phase("laws"):
            laws = to_laws(
                out.logits,
                [p.work.sequence.params for p in sampled for _ in range(p.logit_count)],
            )
        with self.clock.phase("verify"):
            verdicts = verify(sampled, laws)
        with self.clock.phase("commit"):
            observations = self._commit(sampled, verdicts, out.hidden)
            prefill([p.work for p in proposals if not p.work.samples])
        with self.clock.phase("observe"):
            self._observe(sampled, observations)
        return [delta(p) for p in zip(sampled, observations, strict=True)], self._stats(
            plan, proposals, observations
        )

    def _propose(self, plan: Plan) -> list[Proposal]:
        """Ask each drafter once for all its sequences; a draft over its budget is a fault."""
        by_drafter: dict[str, list[Work]] = defaultdict(list)
        for work in plan.work:
            if work.budget:
                by_drafter[work.sequence.drafter].append(work)
        drafts: dict[Work, Draft] = {}
        for name, works in by_drafter.items():
            budgets = [work.budget for work in works]
            contexts = [work.sequence.context() for work in works]
            proposed = self.drafters[name].propose(contexts, budgets)
            for work, draft in zip(works, proposed, strict=True):
                if len(draft) > work.budget:
                    raise ConfigError(
                        f"The drafter '{name}' proposed {len(draft)} tokens"
                        f" on a budget of {work.budget}; mend its propose()."
                    )
                drafts[work] = draft
        return [Proposal(work, drafts.get(work, NO_DRAFT)) for work in plan.work]

    def _commit(
        self, proposals: list[Proposal], verdicts: list[Verdict], hidden: dict[int, Tensor]
    ) -> list[Observation]:
        """The one point where tokens, text, counters and the cache advance, stops applied."""
        observations, start = [], 0
        self._move(proposals, verdicts)
        for proposal, verdict in zip(proposals, verdicts, strict=True):
            sequence, draft = proposal.work.sequence, proposal.draft
            context = sequence.context()
            drafted = tuple(draft.tree.tokens[row - 1] for row in verdict.path)
            committed = sequence.commit(drafted, verdict.token)
            path = verdict.path[: len(committed)]
            sequence.computed = len(sequence.tokens) - 1
            sequence.table.publish(sequence.tokens, sequence.computed)
            if proposal.work.decodes:
                sequence.tally.add(draft, path, len(committed))
            stop = start + proposal.logit_count
            observations.append(
                Observation(
                    context=context,
                    draft=draft,
                    path=path,
                    committed=committed,
                    finished=sequence.finish_reason is not None,
                    hidden={layer: rows[start:stop] for layer, rows in hidden.items()},
                )
            )
            start = stop
        return observations

    def _move(self, proposals: list[Proposal], verdicts: list[Verdict]) -> None:
        """Make the keys and values of accepted paths contiguous."""
        sources, targets = list[Slots](), list[Slots]()
        for proposal, verdict in zip(proposals, verdicts, strict=True):
            moves = kv_moves(verdict.path)
            if moves:
                sequence = proposal.work.sequence
                root = sequence.computed + proposal.work.rows - 1
                slots = sequence.table.slots(root, root + len(proposal.draft) + 1)
                pairs = slots[np.array(moves)]
                sources.append(pairs[:, 0])
                targets.append(pairs[:, 1])
        if sources:
            self.runner.move(np.concatenate(sources), np.concatenate(targets))

    def _observe(self, proposals: list[Proposal], observations: list[Observation]) -> None:
        by_drafter: dict[str, list[Observation]] = defaultdict(list)
        for proposal, seen in zip(proposals, observations, strict=True):
            by_drafter[proposal.work.sequence.drafter].append(seen)
        for name, group in by_drafter.items():
            self.drafters[name].observe(group)
        for proposal in proposals:
            sequence = proposal.work.sequence
            if sequence.finish_reason:
                self.scheduler.remove(sequence)
                self.drafters[sequence.drafter].release(sequence.request.id)

    def _stats(
        self, plan: Plan, proposals: list[Proposal], observations: list[Observation]
    ) -> StepStats:
        decoding = [p for p in proposals if p.work.decodes]
        return StepStats(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            prefill_rows=sum(p.work.rows for p in proposals if not p.work.decodes),
            verify_rows=sum(p.work.rows + len(p.draft) for p in decoding),
            proposed=sum(len(p.draft) for p in decoding),
            accepted=sum(len(seen.path) for seen in observations),
            committed=sum(len(seen.committed) for seen in observations),
            preempted=plan.preempted,
            blocks_used=self.pool.used_count,
            seconds=self.clock.take(),
        )


def rows(proposal: Proposal) -> Rows:
    """What the sequence contributes to the pass."""
    work, sequence = proposal.work, proposal.work.sequence
    end = sequence.computed + work.rows
    return Rows(
        tokens=sequence.tokens[sequence.computed : end],
        start=sequence.computed,
        slots=sequence.table.slots(0, end + len(proposal.draft)),
        draft=proposal.draft,
        wants_logits=work.samples,
    )


def verify(proposals: list[Proposal], laws: Sequence[RowLaw]) -> list[Verdict]:
    """Verify each draft by its sequence's rule, one batch a rule; laws[N, V]."""
    verdicts: dict[int, Verdict] = {}
    by_rule: dict[str, list[int]] = defaultdict(list)
    starts, total = [], 0
    for index, proposal in enumerate(proposals):
        by_rule[proposal.work.sequence.rule.name].append(index)
        starts.append(total)
        total += proposal.logit_count
    for indices in by_rule.values():
        group = [proposals[i] for i in indices]
        spans = [laws[starts[i] : starts[i] + proposals[i].logit_count] for i in indices]
        found = group[0].work.sequence.rule.verify_batch(
            [p.draft for p in group],
            list(chain.from_iterable(spans)),
            [p.work.sequence.chooser() for p in group],
        )
        verdicts.update(zip(indices, found, strict=True))
    return [verdicts[i] for i in range(len(proposals))]


def prefill(works: list[Work]) -> None:
    """Advance the sequences that ran a chunk of their prompt and committed nothing."""
    for work in works:
        work.sequence.computed += work.rows
        work.sequence.table.publish(work.sequence.tokens, work.sequence.computed)


def delta(pair: tuple[Proposal, Observation]) -> Delta:
    """What the step committed for one sequence."""
    sequence, seen = pair[0].work.sequence, pair[1]
    return Delta(
        request_id=sequence.request.id,
        spans=sequence.text.take(),
        token_ids=seen.committed,
        drafted=min(len(seen.path), len(seen.committed)),
        finish_reason=sequence.finish_reason,
    )
