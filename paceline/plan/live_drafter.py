"""A drafter as it is known now: what it costs, what it is good for, and what it has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from paceline.plan.belief import Belief, Trust
from paceline.plan.decision import Candidate, Step
from paceline.plan.live import LiveDraftCosts

NOTED = 0.1


@dataclass
class LiveDrafter:
    """One of those that are loaded."""

    costs: LiveDraftCosts
    pool: Belief
    trust: Trust = field(default_factory=Trust)
    read: dict[str, int] = field(default_factory=dict)
    """Request -> tokens of it when the drafter last drafted for it; later ones it has to read."""

    def unread(self, request: Candidate) -> int:
        """Tokens of the request that it has to read before it drafts."""
        return max(0, request.context_tokens - self.read.get(request.id, 0))

    def reading_ms(self, request: Candidate) -> float:
        """What that is expected to take."""
        return self.costs.reading_ms(self.unread(request))

    def unread_of_note(self, request: Candidate, plain_ms: float) -> int:
        """The same where reading them takes a share of a plain pass that is worth a thought."""
        unread = self.unread(request)
        return unread if self.costs.reading_ms(unread) > NOTED * plain_ms else 0

    def learn(self, requests: Sequence[Candidate], step: Step, ms: float) -> None:
        """Take in what drafting for these requests took, and remember how far they were read.

        A draft counts as long as it came out: a cascade's budget is more than its dear part drafts.
        """
        made = {outcome.id: outcome for outcome in step.outcomes}
        lengths = [max(1, made[r.id].proposed) for r in requests if r.id in made]
        context = float(sum(request.context_tokens for request in requests))
        unread = sum(map(self.unread, requests))
        if self.costs.observe(lengths, context, ms, unread):
            for request in requests:
                accepted = made[request.id].accepted if request.id in made else 0
                self.read[request.id] = request.context_tokens + accepted + 1
