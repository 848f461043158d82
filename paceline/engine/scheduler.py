"""Who runs in the next pass: continuous batching, chunked prefill, preemption by recompute."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paceline.cache import BlockPool
from paceline.config import SchedulerConfig
from paceline.engine.sequence import Sequence
from paceline.plan.decision import PLAIN, BudgetFor, Decision, Mode

NOTHING_DECODES = Decision(shares={}, mode=Mode.PLAIN, reason="plain: no request decodes")


@dataclass(frozen=True, eq=False)
class Work:
    """One sequence's share of a pass."""

    sequence: Sequence
    rows: int
    """Tokens of the sequence to run, from its first one that is not in the cache."""
    budget: int
    """Most nodes that may be drafted; 0 while prefilling."""
    drafter: str
    """Which drafts them; "" where the budget is 0."""
    speedup: float | None
    """Predicted for them over a plain pass; None where nothing was."""
    decodes: bool
    """Whether it is a pass that counts as decoding, not as prefill."""
    samples: bool
    """Whether the rows end at the sequence's last token, so that a token is committed."""


@dataclass
class Plan:
    """The next pass."""

    decision: Decision
    work: list[Work] = field(default_factory=list)
    preempted: int = 0

    @property
    def rows(self) -> int:
        """Rows the pass may take."""
        return sum(work.rows + work.budget for work in self.work)


class Scheduler:
    """First come, first served; the latest arrival gives way when blocks run out."""

    def __init__(self, config: SchedulerConfig, pool: BlockPool) -> None:
        self._config, self._pool = config, pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def __iter__(self) -> Iterator[Sequence]:
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, finished or not, and free its blocks."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        sequence.table.release()

    def schedule(self, budget_for: BudgetFor, owner: str | None = None) -> Plan:
        """Decoding sequences first, then prompts in chunks, within the rows of one pass.

        Those of one `owner` alone, if it is given; the others keep what they hold.
        """
        max_rows = self._config.max_rows
        running = owned(self.running, owner)
        decoding = [s for s in running if s.decodes]
        plan = Plan(self._decide(decoding, budget_for, owner))
        for place, sequence in enumerate(decoding, start=1):
            # The last row of the pass goes to a sequence, not to another's draft.
            self._place(plan, sequence, max_rows - (len(decoding) - place))
        for sequence in [s for s in running if not s.decodes]:
            self._place(plan, sequence, max_rows)
        while plan.rows < max_rows and self._admit(owner):
            self._place(plan, self.running[-1], max_rows)
        return plan

    def _decide(
        self, decoding: list[Sequence], budget_for: BudgetFor, owner: str | None
    ) -> Decision:
        """The budgets of the sequences that decode, settled before anything is drawn."""
        if not decoding:
            return NOTHING_DECODES
        prompt_rows = self._prompt_rows(len(decoding), owner)
        return budget_for([s.candidate() for s in decoding], prompt_rows)

    def _prompt_rows(self, decoding: int, owner: str | None) -> int:
        """Rows of prompts that the pass will hold, if no block runs short."""
        free = self._config.max_num_requests - len(self.running)
        prompts = [s.pending for s in owned(self.running, owner) if not s.decodes]
        prompts += [s.pending for s in owned(self.waiting, owner)[:free]]
        return min(sum(prompts), self._config.max_rows - decoding)

    def _place(self, plan: Plan, sequence: Sequence, max_rows: int) -> None:
        """Add the sequence's work to the plan, unless no row is left or it must give way."""
        rows_left = max_rows - plan.rows
        if rows_left < 1 or sequence not in self.running:
            return
        decodes = sequence.decodes
        rows = min(sequence.pending, rows_left)
        share = plan.decision.shares.get(sequence.request.id, PLAIN) if decodes else PLAIN
        budget = min(share.k, sequence.room, rows_left - 1)
        end = sequence.computed + rows
        if self._lacks(sequence, end + budget):
            budget = 0
        while self._lacks(sequence, end):
            victim = self.running[-1]
            self._preempt(plan, victim)
            if victim is sequence:
                return
        sequence.table.grow(end + budget)
        samples = rows == sequence.pending
        drafter = share.drafter if budget else ""
        speedup = share.speedup if budget else 1.0
        plan.work.append(Work(sequence, rows, budget, drafter, speedup, decodes, samples))

    def _lacks(self, sequence: Sequence, tokens: int) -> bool:
        return sequence.table.missing(tokens) > self._pool.free_count

    def _preempt(self, plan: Plan, victim: Sequence) -> None:
        victim.preempt()
        self.running.remove(victim)
        self.waiting.appendleft(victim)
        plan.work = [work for work in plan.work if work.sequence is not victim]
        plan.preempted += 1

    def _admit(self, owner: str | None) -> bool:
        """Start the first waiting sequence if its whole text so far fits; True if it did."""
        waiting = owned(self.waiting, owner)
        if not waiting or len(self.running) >= self._config.max_num_requests:
            return False
        first = waiting[0]
        if self._pool.blocks_for(len(first.tokens)) > self._pool.free_count:
            return False
        self.waiting.remove(first)
        first.start()
        self.running.append(first)
        return True


def owned(sequences: Iterable[Sequence], owner: str | None) -> list[Sequence]:
    """Those of the owner, or all of them."""
    return [s for s in sequences if owner is None or s.request.owner == owner]
