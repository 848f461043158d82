"""One step of the engine: schedule, propose, pack, forward, laws, verify, commit, observe."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Sequence as Items
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from torch import Tensor

from paceline.cache import BlockPool, Slots
from paceline.drafters import LiveDrafter, Observation
from paceline.engine.legal import under_grammar
from paceline.engine.proposal import Proposal
from paceline.engine.scheduler import Plan, Scheduler
from paceline.engine.scores import Failures, Told, split_rows, target_laws
from paceline.engine.sequence import Sequence
from paceline.errors import CacheError, ConfigError, PacelineError
from paceline.plan.decision import BudgetFor
from paceline.runtime import Runner, pack
from paceline.sampling import RowLaw
from paceline.tree import NO_DRAFT, Draft, kv_moves
from paceline.types import Delta, DraftStats, StepStats, TokenLogprobs
from paceline.verify import Verdict


class Clock:
    """Wall time of one step by phase; a phase ends where the next one begins."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End a phase."""
        now = time.perf_counter()
        self.seconds[phase] = now - self._began
        self._began = now


@dataclass(frozen=True, eq=False)
class Step:
    """The engine's parts, and the loop over them that reads like the paper."""

    scheduler: Scheduler
    runner: Runner
    pool: BlockPool
    drafters: Mapping[str, LiveDrafter]
    hidden_layers: tuple[int, ...] = ()
    ended: list[str] = field(default_factory=list)
    """Requests that ended since the last statistics."""

    def run(self, budget_for: BudgetFor, owner: str | None = None) -> tuple[list[Delta], StepStats]:
        """Run one pass, of one owner's requests or of all; return what it committed and its
        statistics.
        """
        clock = Clock()
        plan = self.scheduler.schedule(budget_for, owner)
        if not plan.work:
            raise CacheError("No request finds room in the cache; enlarge it, or end some first.")
        clock.lap("schedule")
        proposals, draft_ms = self._propose(plan)
        clock.lap("propose")
        batch = pack([p.pass_rows() for p in proposals], self.hidden_layers)
        clock.lap("pack")
        out = self.runner.forward(batch)
        clock.lap("forward")
        sampled = [p for p in proposals if p.work.samples]
        laws, failures = target_laws(out.logits, proposals)
        clock.lap("laws")
        verdicts = verify(sampled, laws)
        clock.lap("verify")
        told = Told(proposals, out.logits, laws)
        observations = self._commit(proposals, verdicts, failures, out.hidden, told)
        deltas = [
            delta(p, seen, told.entries.get(p, ()))
            for p, seen in zip(proposals, observations, strict=True)
            if p.work.samples
        ]
        clock.lap("commit")
        self._observe(proposals, observations)
        clock.lap("observe")
        return deltas, self._stats(plan, proposals, observations, clock.seconds, draft_ms)

    def release(self, sequence: Sequence) -> None:
        """Take out a sequence that ended, and let its drafters forget it."""
        self.scheduler.remove(sequence)
        self.ended.append(sequence.request.id)
        with ExitStack() as releases:  # all of them, whichever fails
            for name in sequence.drafters:
                releases.callback(self.drafters[name].release, sequence.request.id)

    def _propose(self, plan: Plan) -> tuple[list[Proposal], dict[str, float]]:
        """Ask each drafter once for all its sequences; what each of them took, in ms."""
        contexts = [work.sequence.context() for work in plan.work]
        drafts, draft_ms = [NO_DRAFT] * len(contexts), dict[str, float]()
        by_drafter: dict[str, list[int]] = defaultdict(list)
        for index, work in enumerate(plan.work):
            if work.budget:
                by_drafter[work.drafter].append(index)
        for name, group in by_drafter.items():
            began = time.perf_counter()
            budgets = [plan.work[i].budget for i in group]
            proposed = self.drafters[name].propose([contexts[i] for i in group], budgets)
            for index, budget, draft in zip(group, budgets, proposed, strict=True):
                self._check_draft(name, draft, budget)
                matcher = contexts[index].history.matcher
                drafts[index] = under_grammar(draft, matcher, budget) if matcher else draft
            draft_ms[name] = 1e3 * (time.perf_counter() - began)
        proposals = [Proposal(*each) for each in zip(plan.work, contexts, drafts, strict=True)]
        return proposals, draft_ms

    def _check_draft(self, name: str, draft: Draft, budget: int) -> None:
        """A draft over its budget, or of what is no id (padding, say), is a drafter's fault."""
        if len(draft) > budget:
            raise ConfigError(
                f"The drafter '{name}' proposed {len(draft)} tokens on a budget of {budget};"
                " mend its propose()."
            )
        size = self.runner.model.spec.vocab_size
        if draft and not 0 <= min(draft.tree.tokens) <= max(draft.tree.tokens) < size:
            raise ConfigError(
                f"The drafter '{name}' proposed an id that is not in 0 .. {size - 1};"
                " mend its propose()."
            )

    def _commit(
        self,
        proposals: list[Proposal],
        verdicts: Mapping[Proposal, Verdict],
        failures: Failures,
        hidden: dict[int, Tensor],
        told: Told,
    ) -> list[Observation]:
        """The one point where tokens, text, counters and the cache advance, stops applied."""
        self._move(verdicts)
        observations, row = [], 0
        for proposal in proposals:
            sequence, start = proposal.work.sequence, proposal.work.sequence.computed
            told.tell_prompt(proposal)
            failed = failures.get(proposal, {})
            path, committed = commit(proposal, verdicts.get(proposal), failed)
            told.tell_output(proposal, path, committed)
            sequence.table.publish(sequence.tokens, sequence.computed)
            stop = row + proposal.row_count
            observations.append(
                Observation(
                    context=proposal.context,
                    draft=proposal.draft,
                    start=start,
                    path=path,
                    committed=committed,
                    finished=sequence.finish_reason is not None,
                    hidden={layer: states[row:stop] for layer, states in hidden.items()},
                )
            )
            row = stop
        return observations

    def _move(self, verdicts: Mapping[Proposal, Verdict]) -> None:
        """Make the keys and values of accepted paths contiguous."""
        sources, targets = list[Slots](), list[Slots]()
        for proposal, verdict in verdicts.items():
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
        """Tell every drafter a sequence may use, whichever of them drafted."""
        by_drafter: dict[str, list[Observation]] = defaultdict(list)
        for proposal, seen in zip(proposals, observations, strict=True):
            for name in proposal.work.sequence.drafters:
                by_drafter[name].append(seen)
        for name, group in by_drafter.items():
            self.drafters[name].observe(group)
        for proposal in proposals:
            if proposal.work.sequence.finish_reason:
                self.release(proposal.work.sequence)

    def _stats(
        self,
        plan: Plan,
        proposals: list[Proposal],
        observations: list[Observation],
        seconds: dict[str, float],
        draft_ms: dict[str, float],
    ) -> StepStats:
        decoding = [p for p in proposals if p.work.decodes]
        drafts = [
            draft_stats(p, seen)
            for p, seen in zip(proposals, observations, strict=True)
            if p.work.decodes
        ]
        ended = tuple(self.ended)
        self.ended.clear()
        return StepStats(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            prefill_rows=sum([p.work.rows for p in proposals if not p.work.decodes]),
            verify_rows=sum([p.row_count for p in decoding]),
            proposed=sum([len(p.draft) for p in decoding]),
            accepted=sum([len(seen.path) for seen in observations]),
            committed=sum([len(seen.committed) for seen in observations]),
            preempted=plan.preempted,
            blocks_used=self.pool.used_count,
            seconds=seconds,
            draft_ms=draft_ms,
            drafts=tuple(drafts),
            ended=ended,
            mode=plan.decision.mode,
            reason=plan.decision.reason,
            speedup=plan.decision.speedup,
        )


def verify(proposals: list[Proposal], laws: Items[RowLaw]) -> dict[Proposal, Verdict]:
    """The verdict on each draft, by its request's rule; laws[N, V] hold its rows in order."""
    by_rule: dict[str, list[int]] = defaultdict(list)
    for index, proposal in enumerate(proposals):
        by_rule[proposal.context.rule.name].append(index)
    spans = split_rows(laws, [proposal.law_count for proposal in proposals])
    verdicts: dict[Proposal, Verdict] = {}
    for indices in by_rule.values():
        group = [proposals[i] for i in indices]
        found = group[0].context.rule.verify_batch(
            [p.draft for p in group],
            list(chain.from_iterable(spans[i] for i in indices)),
            [p.context.chooser for p in group],
        )
        verdicts.update(zip(group, found, strict=True))
    return verdicts


def commit(
    proposal: Proposal, verdict: Verdict | None, failed: Mapping[int, PacelineError]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Advance the sequence; return the accepted path and the committed tokens.

    Without a verdict it ran a chunk of its prompt. At the first `failed` row on the path it ends.
    """
    work, sequence, draft = proposal.work, proposal.work.sequence, proposal.draft
    if verdict is None:
        sequence.computed += work.rows
        return (), ()
    rows = (0, *verdict.path)
    depth = next((depth for depth, row in enumerate(rows) if row in failed), len(rows))
    committed = sequence.commit(verdict.tokens(draft)[:depth], drafted=len(verdict.path))
    if depth < len(rows):
        sequence.fail(failed[rows[depth]])
    path = verdict.path[: len(committed)]
    sequence.computed = len(sequence.tokens) - 1
    if work.decodes:
        sequence.tally.add(work.drafter, work.speedup, draft, path, len(committed))
    return path, committed


def delta(proposal: Proposal, seen: Observation, logprobs: tuple[TokenLogprobs, ...]) -> Delta:
    """What the step committed for one sequence."""
    sequence = proposal.work.sequence
    return Delta(
        request_id=sequence.request.id,
        spans=sequence.text.take(),
        token_ids=seen.committed,
        drafted=min(len(seen.path), len(seen.committed)),
        drafter=proposal.work.drafter if seen.path else "",
        logprobs=logprobs,
        finish_reason=sequence.finish_reason,
    )


def draft_stats(proposal: Proposal, seen: Observation) -> DraftStats:
    """What a listener is told of one request that decoded."""
    return DraftStats(
        request_id=proposal.work.sequence.request.id,
        drafter=proposal.work.drafter,
        budget=proposal.work.budget,
        proposed=len(proposal.draft),
        accepted=len(seen.path),
        context_tokens=seen.start,
    )
