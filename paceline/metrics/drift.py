"""Whether a drafter's drafts are taken less often than they used to be."""

from __future__ import annotations

from dataclasses import dataclass, field

RECENT_TOKENS, USUAL_TOKENS = 1_000, 20_000
"""Half-lives, in proposed tokens, of the recent acceptance rate and of the usual one."""
LEAST_TOKENS = 4_000
"""Proposed tokens before there is a usual rate to fall from."""
ALARM_RATIO = 0.75
"""Recent below this much of usual is an alarm. With 1,443 tokens in the recent mean, its error is
under 0.014 where tokens are independent; a fall of a quarter is ten times that at a rate of 0.5."""


@dataclass
class Fading:
    """A mean in which a token weighs half as much after `half_life` further tokens."""

    half_life: int
    mean: float = 0.0
    _weight: float = 0.0

    def add(self, rate: float, tokens: int) -> None:
        """Take in `tokens` with a mean of `rate`."""
        keep = 0.5 ** (tokens / self.half_life)
        total = self._weight * keep + (1 - keep)
        self.mean = (self.mean * self._weight * keep + rate * (1 - keep)) / total
        self._weight = total


@dataclass
class Drift:
    """One drafter's recent acceptance rate beside its usual one."""

    recent: Fading = field(default_factory=lambda: Fading(RECENT_TOKENS))
    usual: Fading = field(default_factory=lambda: Fading(USUAL_TOKENS))
    seen_tokens: int = 0

    @property
    def alarm(self) -> bool:
        """Whether acceptance has fallen; it stays so until the rate is back."""
        settled = self.seen_tokens >= LEAST_TOKENS
        return settled and self.recent.mean < ALARM_RATIO * self.usual.mean

    def add(self, proposed: int, accepted: int) -> None:
        """Count one request's drafts; what comes during an alarm does not become usual."""
        if not proposed:
            return
        self.seen_tokens += proposed
        self.recent.add(accepted / proposed, proposed)
        if not self.alarm:
            self.usual.add(accepted / proposed, proposed)
