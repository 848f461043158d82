"""When to try again what does not pay: seldom, cheaply, and never for more than was allowed.

A thing to probe (a drafter nobody uses, more rows than were ever measured) is tried after some
passes, and after twice as many each time it is no better than was thought, up to a limit; a
pleasant surprise brings the next trial forward. What probes lose, measured, is kept below
`allowance_ms + share * elapsed_ms`: that is the bound on the regret of ever asking.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_GAP = 8
LAST_GAP = 32
SHARE = 0.005
"""Of all time, what probes may lose."""
ALLOWANCE_PASSES = 3.0
"""What they may lose besides, in plain passes, so that a young engine may probe at all."""


@dataclass
class Patience:
    """How long one thing has waited and is to wait."""

    waited: int = 0
    gap: int = FIRST_GAP

    def answer(self, success: bool) -> None:
        """Learn from a trial."""
        self.waited = 0
        self.gap = max(1, self.gap // 4) if success else min(LAST_GAP, max(FIRST_GAP, 2 * self.gap))


@dataclass
class Prober:
    """All that is not in use, and the purse that trials are paid from."""

    patience: dict[str, Patience] = field(default_factory=dict)
    elapsed_ms: float = 0.0
    lost_ms: float = 0.0

    def pass_by(self, ms: float, unused: set[str]) -> None:
        """Another pass; what is in use starts afresh."""
        self.elapsed_ms += ms
        for name in unused:
            self.patience.setdefault(name, Patience()).waited += 1
        for name in [name for name in self.patience if name not in unused]:
            del self.patience[name]

    def affordable(self, cost_ms: float, plain_ms: float) -> bool:
        """Whether a trial that may lose so much is within the bound."""
        return self.lost_ms + cost_ms <= ALLOWANCE_PASSES * plain_ms + SHARE * self.elapsed_ms

    def due(self) -> list[str]:
        """What has waited long enough, the longest first."""
        waiting = [(-p.waited, name) for name, p in self.patience.items() if p.waited >= p.gap]
        return [name for _, name in sorted(waiting)]

    def put_off(self, name: str) -> None:
        """Ask again later: there is nothing to try, or it costs too much yet."""
        patience = self.patience[name]
        patience.gap = patience.waited + FIRST_GAP

    def answer(self, name: str, success: bool, lost_ms: float) -> None:
        """Pay for a trial and learn from it."""
        self.lost_ms += max(0.0, lost_ms)
        self.patience.setdefault(name, Patience()).answer(success)
