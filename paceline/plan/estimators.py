"""Acceptance from what was observed: constant, by position, by rule, by the drafter's confidence.

All rates are conditional: of the passes that proposed position j and accepted all before it, how
many accepted it too. Marginal means multiply to a wrong answer, since positions go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError
from paceline.plan.beta import Beta
from paceline.plan.isotonic import interpolate, isotonic


@dataclass(frozen=True)
class Counts:
    """Passes by position, as in `SpeculationCounts`: reached[j] and, of these, survived[j]."""

    reached: tuple[float, ...] = ()
    survived: tuple[float, ...] = ()

    @classmethod
    def of(cls, passes: Iterable[tuple[int, int]]) -> Counts:
        """Count (proposed, accepted) pairs of chains.

        (4, 2) and (4, 4): reached (2, 2, 2, 1), survived (2, 2, 1, 1).
        """
        reached: list[float] = []
        survived: list[float] = []
        for proposed, accepted in passes:
            for position in range(min(proposed, accepted + 1)):
                if position == len(reached):
                    reached.append(0)
                    survived.append(0)
                reached[position] += 1
                survived[position] += position < accepted
        return cls(tuple(reached), tuple(survived))

    def __add__(self, other: Counts) -> Counts:
        return Counts(added(self.reached, other.reached), added(self.survived, other.survived))


def added(left: Sequence[float], right: Sequence[float]) -> tuple[float, ...]:
    """Elementwise sum; the shorter one is padded with 0."""
    length = max(len(left), len(right))
    padded = ((*values, *[0.0] * (length - len(values))) for values in (left, right))
    return tuple(a + b for a, b in zip(*padded, strict=True))


def total(counts: Iterable[Counts]) -> Counts:
    """The counts of all together."""
    summed = Counts()
    for one in counts:
        summed += one
    return summed


def constant_alpha(counts: Counts) -> Beta:
    """One alpha for all positions: all acceptances of all trials, as a posterior.

    The likelihood of a run that stops at its first rejection is that of independent trials, so the
    estimate is survived / reached. 2 of 3 accepted thrice over, (3, 2) and (2, 1): Beta(3.5, 2.5).
    """
    return Beta.of(sum(counts.survived), sum(counts.reached))


def alphas_by_position(counts: Counts, neighbour_passes: float = 3.0) -> list[Beta]:
    """A posterior for each position, each leaning on the one before it.

    The prior of position j is the mean of j - 1 with a weight of `neighbour_passes`, for which deep
    positions, reached seldom, are grateful; the first has Jeffreys'. With (8, 4) reached and (6, 4)
    survived: Beta(6.5, 2.5), of mean .722, then Beta(2.17 + 4, .83 + 0), .881 and not 1.
    """
    posteriors: list[Beta] = []
    for reached, survived in zip(counts.reached, counts.survived, strict=True):
        if posteriors:
            prior = neighbour_passes * posteriors[-1].mean
            posterior = Beta(prior + survived, neighbour_passes - prior + reached - survived)
        else:
            posterior = Beta.of(survived, reached)
        posteriors.append(posterior)
    return posteriors


def extended(alphas: Sequence[float], length: int) -> list[float]:
    """alphas[length]: the given ones, and the last of them again for positions beyond."""
    if not alphas:
        raise ConfigError("There is no acceptance rate to extend; measure some passes with drafts.")
    return [alphas[min(position, len(alphas) - 1)] for position in range(length)]


Group = tuple[str, str]
"""Drafter and rule: the rule decides what stands, so its acceptance is its own."""


def by_rule(passes: Iterable[tuple[str, str, int, int]]) -> Mapping[Group, Counts]:
    """Counts of (drafter, rule, proposed, accepted), for each drafter and rule apart."""
    groups: dict[Group, list[tuple[int, int]]] = {}
    for drafter, rule, proposed, accepted in passes:
        groups.setdefault((drafter, rule), []).append((proposed, accepted))
    return {group: Counts.of(pairs) for group, pairs in groups.items()}


@dataclass(frozen=True)
class Calibration:
    """What a drafter's confidence is worth: a rising map from it to acceptance.

    EAGLE-2 (2406.16858) takes confidences for acceptance rates as they are; they are seldom that.
    """

    confidences: tuple[float, ...]
    """Mean confidence of each bin, rising."""
    rates: tuple[float, ...]

    @classmethod
    def fit(cls, pairs: Iterable[tuple[float, bool]], bins: int = 20) -> Calibration:
        """Fit to (confidence, accepted) pairs: bins of equal count, made to rise.

        The rate of a bin is its Jeffreys mean, so that none is taken for 0 or 1. Pairs (.9, yes)
        and (.9, no): (1 + .5) / (2 + 1) = .5 at .9, for a drafter that is too sure of itself.

        Raises:
            ConfigError: no pairs.
        """
        ordered = sorted(pairs)
        if not ordered:
            raise ConfigError("A calibration needs confidences and whether each was accepted.")
        size = -(-len(ordered) // bins)
        parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        means = [sum(confidence for confidence, _ in part) / len(part) for part in parts]
        rates = [Beta.of(sum(hit for _, hit in part), len(part)).mean for part in parts]
        rising = isotonic(rates, [float(len(part)) for part in parts])
        return cls(tuple(means), tuple(rising))

    def rate(self, confidence: float) -> float:
        """The acceptance to expect at a confidence; level outside of what was seen."""
        return interpolate(confidence, self.confidences, self.rates)

    def error(self, pairs: Sequence[tuple[float, bool]], bins: int = 10) -> float:
        """Expected calibration error on further pairs (Guo et al. 2017): |predicted - seen|.

        The mean over bins of equal count; 0 is perfect. Use pairs that were not fitted to.
        """
        ordered = sorted((self.rate(confidence), hit) for confidence, hit in pairs)
        size = -(-len(ordered) // bins)
        gaps = 0.0
        for start in range(0, len(ordered), size):
            part = ordered[start : start + size]
            gaps += abs(sum(rate - hit for rate, hit in part))
        return gaps / len(ordered)
