"""What passes and drafts cost until the first of them were measured: the shape, in a guessed unit.

`LiveCosts` takes its scale from the first pass and its shape from the passes that follow.
"""

from __future__ import annotations

from paceline.plan.costs import CostCurve, DraftCosts

TARGET = CostCurve((1, 2, 4, 5, 8, 16, 32, 64, 512), (30, 31.5, 34.5, 36, 48, 90, 180, 360, 2880))
"""A pass of a CPU whose arithmetic is spent at some 5 rows, which is soon for any machine: where
more rows are free a longer draft is measured before it is trusted, not after."""
DRAFT_SHARE = 0.25
"""Of a target pass, what a pass of a draft model is taken for."""
LOOKUP_MS = 0.1


def drafts(sequential: bool) -> DraftCosts:
    """Of a drafter that runs a pass for each further token, or of one that looks its draft up."""
    if not sequential:
        return DraftCosts(request_ms=LOOKUP_MS)
    values = tuple(DRAFT_SHARE * ms for ms in TARGET.values_ms)
    return DraftCosts(passes=CostCurve(TARGET.knots, values))
