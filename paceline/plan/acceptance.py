"""How often a draft stands: the overlap of two laws and what is left where it does not."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import ConfigError


def acceptance_rate(target_probs: Sequence[float], draft_probs: Sequence[float]) -> float:
    """P(a drafted token is accepted) under the token rule: sum over ids of min(p, q).

    From target_probs[V] and draft_probs[V] (Leviathan et al., arXiv 2211.17192, corollary 3.6).
    p = (.2, .3, .35, .15) and q = (.35, .25, .25, .15) overlap by .85.
    """
    return sum(min(p, q) for p, q in zip(target_probs, draft_probs, strict=True))


def total_variation(target_probs: Sequence[float], draft_probs: Sequence[float]) -> float:
    """Half the absolute difference of two laws[V]: 1 - acceptance_rate; .15 for the laws above."""
    return 0.5 * sum(abs(p - q) for p, q in zip(target_probs, draft_probs, strict=True))


def residual(target_probs: Sequence[float], draft_probs: Sequence[float]) -> list[float]:
    """The law[V] to draw from after a rejection, norm(max(0, p - q)); (0, 1/3, 2/3, 0) above.

    Raises:
        ConfigError: the laws are equal, so nothing is ever rejected and nothing is left.
    """
    left = [max(0.0, p - q) for p, q in zip(target_probs, draft_probs, strict=True)]
    if not any(left):
        raise ConfigError("Equal laws leave no residual; nothing is rejected between them.")
    return normalise(left)


def normalise(weights: Sequence[float]) -> list[float]:
    """Divide weights[V] by their sum."""
    total = sum(weights)
    return [w / total for w in weights]
