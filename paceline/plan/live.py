"""Cost curves that follow the machine while it works, forgetting what it was.

A prior curve (from a plan or the roofline) is corrected by the ratio of measured to expected time,
kept at knots of the number of rows; knots nobody measured follow those around them. The first
passes move a ratio at once, later ones by 1/16th, and by up to a fifth where none was measured for
long. What changes where the curve is well known is the machine's pace, so it moves the other knots
too, the near ones most; and one slow pass, whatever disturbed it, counts as no more than 1.65 times
its expectation.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from operator import le
from statistics import fmean

import numpy as np

from paceline.chooser.race import Floats
from paceline.plan.costs import KNOTS, CostCurve, DraftCosts, Ints, PassCosts
from paceline.plan.isotonic import interpolate, isotonic

MEMORY = 16
"""Passes after which a measurement has lost most of its weight."""
KNOWN = 4
"""Passes at a knot after which a deviation is taken for noise or for a change of pace."""
MEASURED = 0.5
"""Share of a pass near a knot with which it is no longer a guess."""
STALE = 32
"""Passes at other knots after which what was measured counts little more than KNOWN passes."""
CLIP = 0.5
"""Most that one pass counts for, as a logarithm, where the curve is known."""
PACE = 0.85
"""Share of a change that holds for twice or half as many rows as well, and so on: what slows a
pass slows those of about as many rows alike."""
PACES = [[PACE ** abs(math.log2(other / rows)) for other in KNOTS] for rows in KNOTS]


class LiveCosts:
    """The target's passes, as they are now."""

    def __init__(self, prior: PassCosts) -> None:
        self._ratios = [0.0] * len(KNOTS)
        """log(measured / prior) by knot."""
        self._seen = [0.0] * len(KNOTS)
        self._prior_ms = [prior.ms(rows) for rows in KNOTS]
        self._table = self._prior_ms
        self._context_ms = (prior.ms(1, 1e6) - prior.ms(1)) / 1e6

    def ms(self, rows: float, context_tokens: float = 0.0) -> float:
        """Milliseconds of a pass; never less for more rows."""
        beyond = max(1.0, rows / KNOTS[-1])
        base = interpolate(rows, KNOTS, self._table) * beyond
        return base + self._context_ms * context_tokens

    def many_ms(self, rows: Floats | Ints, context_tokens: Floats | float = 0.0) -> Floats:
        """Those of passes[n]."""
        beyond = np.maximum(1.0, rows / KNOTS[-1])
        base = np.interp(rows, KNOTS, self._table) * beyond
        return np.asarray(base + self._context_ms * context_tokens)

    @property
    def pace(self) -> float:
        """One row's pass, as a multiple of what it was taken for."""
        return self._table[0] / self._prior_ms[0]

    def seen(self, rows: int) -> float:
        """Measured passes near so many rows."""
        return max(self._seen[knot] for knot, share in near(rows) if share > 0)

    @property
    def hopeful(self) -> CostCurve:
        """The curve, but where nothing was measured more rows cost nothing."""
        values = list(self._table)
        for knot in range(1, len(KNOTS)):
            if self._seen[knot] < MEASURED:
                values[knot] = values[knot - 1]
        return CostCurve(KNOTS, tuple(values), self._context_ms)

    def observe(self, rows: int, context_tokens: float, ms: float) -> None:
        """Learn from one pass."""
        surprise = math.log(ms / self.ms(rows, context_tokens))
        knots = near(rows)
        norm = sum(share * share for _, share in knots)
        for knot, share in knots:
            seen = self._seen[knot]
            clipped = max(-CLIP, min(CLIP, surprise)) if seen >= KNOWN else surprise
            deviation = share / norm * clipped
            if seen >= KNOWN:
                pairs = zip(self._ratios, PACES[knot], strict=True)
                self._ratios = [ratio + pace * deviation / MEMORY for ratio, pace in pairs]
                self._ratios[knot] += deviation * max(0.0, 1 / (seen + 1) - 1 / MEMORY)
            else:
                self._ratios[knot] += deviation / (seen + 1)
        self._age(dict(knots))
        self._follow()
        pairs = zip(self._prior_ms, self._ratios, strict=True)
        expected = [ms * math.exp(ratio) for ms, ratio in pairs]
        rises = all(map(le, expected, expected[1:]))
        self._table = expected if rises else isotonic(expected, [n + 0.01 for n in self._seen])

    def _age(self, measured: Mapping[int, float]) -> None:
        """Count the pass, and forget of the other knots: what they say is of the machine then."""
        for knot, seen in enumerate(self._seen):
            if knot in measured:
                self._seen[knot] = min(MEMORY, seen + measured[knot])
            elif seen > KNOWN:
                self._seen[knot] = seen - (seen - KNOWN) / STALE

    def _follow(self) -> None:
        """Let the ratios of knots where nothing was seen be what the knots around them say."""
        seen = [place for place, passes in enumerate(self._seen) if passes]
        knots, ratios = [KNOTS[place] for place in seen], [self._ratios[place] for place in seen]
        self._ratios = [interpolate(rows, knots, ratios) for rows in KNOTS]


def near(rows: int) -> list[tuple[int, float]]:
    """The knots on both sides and their shares of a pass of so many rows."""
    right = bisect_right(KNOTS, rows)
    if right == len(KNOTS):
        return [(right - 1, 1.0)]
    left = max(0, right - 1)
    share = (KNOTS[right] - rows) / (KNOTS[right] - KNOTS[left])
    return [(left, share), (right, 1 - share)] if share < 1 else [(left, 1.0)]


STEPS = 8
"""Steps of a drafter that count."""
DISTURBED = 1.5
"""Most that one of them counts for, as a multiple of the dearest so far."""
DEAREST_MEMORY = 64
"""Steps after which the dearest is forgotten."""
FEW = 32
"""So few tokens that had to be read first say nothing of what many take."""


class LiveDraftCosts:
    """One drafter's costs, as they are now: the prior's, times one ratio.

    The ratio is that of the last steps' sums: of a drafter that is free in some steps and dear in
    others, a cascade, the mean is what it costs, and few steps, because the shares of the two
    change with the text. A step that something else disturbed counts as no more than half as much
    again as the dearest. Until it was measured the ratio is the target's: a machine that runs one
    model faster than was thought runs the other faster, too.
    """

    def __init__(self, prior: DraftCosts, target: LiveCosts) -> None:
        self.prior, self._target = prior, target
        self._steps: deque[tuple[float, float]] = deque(maxlen=STEPS)
        """Measured and prior milliseconds."""
        self._dearest = 0.0
        """The largest ratio of a step, forgotten slowly."""
        self._reading: deque[float] = deque(maxlen=KNOWN)
        """Milliseconds per token that it had to read first."""

    @property
    def now(self) -> DraftCosts:
        """The prior at today's pace."""
        pace = self._pace if self._steps else self._target.pace
        passes = None if self.prior.passes is None else Paced(self.prior.passes, pace)
        prior = self.prior
        return DraftCosts(prior.step_ms * pace, prior.request_ms * pace, passes, prior.most_passes)

    @property
    def _pace(self) -> float:
        return sum(ms for ms, _ in self._steps) / sum(expected for _, expected in self._steps)

    def reading_ms(self, tokens: int) -> float:
        """Milliseconds to read so many tokens before drafting; none until that was seen."""
        return fmean(self._reading) * tokens if self._reading else 0.0

    def observe(
        self, lengths: list[int], context_tokens: float, ms: float, unread: int = 0
    ) -> bool:
        """Learn from one step's drafting; say whether it has read the `unread` tokens as well.

        A drafter that is free on paper stays so. Where much was to be read and the step was quicker
        than drafts alone are, it has not been: of a cascade, the first drafter had an answer.
        """
        expected = self.prior.ms(lengths, context_tokens)
        if expected <= 0 or ms <= 0:
            return True
        usual = self.now.ms(lengths, context_tokens)
        has_read = unread < FEW or ms >= usual
        if has_read and unread >= FEW:
            self._reading.append((ms - usual) / unread)
        elif not unread or ms < usual:
            self._count(ms, expected)
        return has_read

    def _count(self, ms: float, expected: float) -> None:
        """Take in a step, one that was disturbed as far as it is believed."""
        most = DISTURBED * self._dearest if len(self._steps) >= KNOWN else math.inf
        ratio = min(ms / expected, most)
        self._steps.append((ratio * expected, expected))
        self._dearest = max(ratio, self._dearest * (1 - 1 / DEAREST_MEMORY))


class Paced:
    """A cost curve times a factor."""

    def __init__(self, costs: PassCosts, factor: float) -> None:
        self._costs, self._factor = costs, factor

    def ms(self, rows: float, context_tokens: float = 0.0) -> float:
        """Milliseconds of a pass."""
        return self._factor * self._costs.ms(rows, context_tokens)

    def many_ms(self, rows: Floats | Ints, context_tokens: Floats | float = 0.0) -> Floats:
        """Those of passes[n]."""
        return self._factor * self._costs.many_ms(rows, context_tokens)
