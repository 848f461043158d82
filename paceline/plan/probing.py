"""When to try again what does not pay: seldom, cheaply, and never for more than was allowed.

A thing to probe (a drafter nobody uses, more rows than were ever measured) is tried after some
passes, and after twice as many each time it is no better than was thought, up to a limit; a
pleasant surprise brings the next trial forward. What probes lose, measured, is kept below
`allowance_ms + share * elapsed_ms`: that is the bound on the regret of ever asking. The first trial
of each thing is not counted, since nobody knows before what it takes.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

FIRST_GAP = 8
LAST_GAP = 64
SHARE = 0.003
"""Of all time, what probes may lose."""
ALLOWANCE_PASSES = 3.0
"""What they may lose besides, in plain passes, so that a young engine may probe at all."""
COURSE = 4
"""Passes of a drafter's first trial, and of each where it has to read the text: one reading serves
them all."""


@dataclass
class Patience:
    """How long one thing has waited and is to wait."""

    waited: int = 0
    gap: int = FIRST_GAP
    left: int = 0
    """Passes that its trial still takes."""
    pleased: bool = False
    """Whether one of those before was a pleasant surprise."""
    delay: int = FIRST_GAP
    """Passes by which a trial is put off that cannot be made now."""

    def answer(self, success: bool, course: int = 1) -> None:
        """Learn from one pass of a trial of `course` passes."""
        self.left = (self.left or course) - 1
        self.pleased |= success
        if self.left:
            return
        longer = min(LAST_GAP, max(FIRST_GAP, 2 * self.gap))
        self.gap = max(1, self.gap // 4) if self.pleased else longer
        self.waited, self.pleased, self.delay = 0, False, FIRST_GAP


@dataclass
class Prober:
    """All that is not in use, and the purse that trials are paid from."""

    patience: dict[str, Patience] = field(default_factory=dict)
    elapsed_ms: float = 0.0
    lost_ms: float = 0.0
    trials: int = 0
    """Passes of trials so far."""
    known: set[str] = field(default_factory=set)
    """What has been in use or tried."""

    def pass_by(self, ms: float, used: Set[str], unused: Set[str]) -> None:
        """Another pass; what is in use starts afresh."""
        self.elapsed_ms += ms
        self.known |= used
        for name in unused:
            self.patience.setdefault(name, Patience()).waited += 1
        for name in [name for name in self.patience if name not in unused]:
            del self.patience[name]

    def affordable(self, name: str, cost_ms: float, plain_ms: float) -> bool:
        """Whether a trial that may lose so much is within the bound."""
        if name not in self.known:
            return True
        return self.lost_ms + cost_ms <= ALLOWANCE_PASSES * plain_ms + SHARE * self.elapsed_ms

    def begun(self, name: str) -> bool:
        """Whether its trial has passes left."""
        return self.patience[name].left > 0

    def due(self) -> list[str]:
        """What is being tried, then what has waited long enough, the longest first."""
        waiting = [
            (not p.left, -p.waited, name)
            for name, p in self.patience.items()
            if p.left or p.waited >= p.gap
        ]
        return [name for _, _, name in sorted(waiting)]

    def put_off(self, name: str) -> None:
        """Ask again later, and later each time: there is nothing to try, or it costs too much."""
        patience = self.patience[name]
        if patience.left:
            self.known.add(name)
        patience.gap, patience.left = patience.waited + patience.delay, 0
        patience.delay = min(LAST_GAP, 2 * patience.delay)

    def answer(self, name: str, success: bool, lost_ms: float, course: int = 1) -> None:
        """Pay for one pass of a trial and learn from it."""
        patience = self.patience.setdefault(name, Patience())
        patience.answer(success, course)
        self.trials += 1
        if name in self.known:
            self.lost_ms += max(0.0, lost_ms)
        elif not patience.left:
            self.known.add(name)
