"""What speculation did for one sequence, counted pass by pass and drafter by drafter."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import nan

from paceline.drafters import OFF
from paceline.tree import Draft
from paceline.types import SpeculationCounts, summed


@dataclass(eq=False)
class Passes:
    """Counters of the passes in which one drafter might draft, while they change."""

    passes: int = 0
    proposed: int = 0
    accepted: int = 0
    committed: int = 0
    speedups: float = 0.0
    reached: list[int] = field(default_factory=list)
    survived: list[int] = field(default_factory=list)

    def add(
        self, speedup: float | None, draft: Draft, path: tuple[int, ...], committed: int
    ) -> None:
        """Count one pass."""
        self.passes += 1
        self.speedups += nan if speedup is None else speedup
        self.proposed += len(draft)
        self.accepted += len(path)
        self.committed += committed
        for depth, row in enumerate((0, *path)):
            if draft.trials[row]:
                if depth == len(self.reached):
                    self.reached.append(0)
                    self.survived.append(0)
                self.reached[depth] += 1
                self.survived[depth] += depth < len(path)

    def counts(self) -> SpeculationCounts:
        """The counters as a value; every proposed token is scored, so verified = proposed."""
        return SpeculationCounts(
            passes=self.passes,
            proposed=self.proposed,
            verified=self.proposed,
            accepted=self.accepted,
            committed=self.committed,
            reached=tuple(self.reached),
            survived=tuple(self.survived),
            speedups=self.speedups,
        )


class Tally:
    """Counters of a sequence by drafter; passes in which nothing might be drafted are "none"'s."""

    def __init__(self) -> None:
        self._passes = defaultdict[str, Passes](Passes)

    @property
    def drafter(self) -> str:
        """The one that proposed most; "" if none did."""
        proposed = {name: one.proposed for name, one in self._passes.items() if one.proposed}
        return max(proposed, key=proposed.__getitem__, default="")

    def add(
        self,
        drafter: str,
        speedup: float | None,
        draft: Draft,
        path: tuple[int, ...],
        committed: int,
    ) -> None:
        """Count one pass that was not prefill."""
        self._passes[drafter or OFF].add(speedup, draft, path, committed)

    def by_drafter(self) -> dict[str, SpeculationCounts]:
        """The counters of each drafter's passes."""
        return {name: one.counts() for name, one in self._passes.items()}

    def counts(self) -> SpeculationCounts:
        """Those of all passes."""
        return summed([*self.by_drafter().values()])
