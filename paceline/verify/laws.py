"""What all rules are written in: laws as arrays, residuals, the addresses of draws.

Every function works on float64 and on arrays of fractions (dtype object) alike, so the
specification that is proved is the code that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from paceline.chooser import Chooser, Draw, Law, Purpose, SparseLaw
from paceline.errors import ConfigError
from paceline.tree import Draft, PointMass, Trial

Dense = NDArray[Any]
"""weights[V], every id's: float64 in production, fractions in a proof."""

Weights = Dense | SparseLaw


@dataclass(frozen=True, slots=True)
class OneHot:
    """The law of a point mass: q(token) = 1."""

    token: int

    def __getitem__(self, token: int) -> int:
        return int(token == self.token)

    def at(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The probabilities[...] of ids[...]."""
        return np.equal(ids, self.token).astype(np.int64)


def as_law(row: Any) -> Weights:
    """A row of probabilities as weights[V]; no copy of one that lies in main memory."""
    if isinstance(row, SparseLaw):
        return row
    law: NDArray[Any] = row.numpy(force=True) if isinstance(row, Tensor) else np.asarray(row)
    return law


def as_rows(laws: Tensor | Sequence[Law]) -> Any:
    """laws[N, V] row by row, in main memory."""
    return laws.numpy(force=True) if isinstance(laws, Tensor) else laws


def draft_law(draft: Draft, trial: Trial) -> Weights | OneHot:
    """The law q[V] that a trial's token was drawn from."""
    if isinstance(trial, PointMass):
        return OneHot(trial.token)
    return as_law(draft.draft_probs[trial.law])


def excess(p: Weights, q: Weights | OneHot, w: Any = 1) -> Weights:
    """max(0, w p - q), elementwise[V]; no id that p lacks can have any."""
    if isinstance(p, SparseLaw):
        taken = q[p.ids] if isinstance(q, np.ndarray) else q.at(p.ids)
        return SparseLaw(p.ids, np.maximum(p.probs * w - taken, 0), p.size)
    over: NDArray[Any] = p * w
    if isinstance(q, OneHot):
        over[q.token] = max(over[q.token] - 1, 0)
        return over
    if isinstance(q, SparseLaw):
        over[q.ids] = np.maximum(over[q.ids] - q.probs, 0)
        return over
    over -= q
    return np.maximum(over, 0, out=over)  # type: ignore[no-any-return]


def residual(p: Weights, q: Weights | OneHot, w: Any = 1) -> Weights:
    """norm(max(0, w p - q))[V]: what is left of p once q has had its chance.

    Where w p = q it is empty and, in exact arithmetic, never asked for; rounding may, and gets p.
    """
    over = excess(p, q, w)
    mass = over.sum()
    if mass == 0:
        return p
    return scaled(over, mass)


def scaled(over: Weights, mass: Any) -> Weights:
    """over / mass; an array is overwritten."""
    if isinstance(over, SparseLaw):
        return SparseLaw(over.ids, over.probs / mass, over.size)
    over /= mass
    return over


def at(chooser: Chooser, draft: Draft, row: int, purpose: Purpose, trial: int = 0) -> Draw:
    """The address of a draw at a row of the draft's tree."""
    return Draw(chooser.base + draft.tree.depths[row], row, trial, purpose)


def require_chain(rule: str, draft: Draft) -> None:
    """Raise ConfigError unless the draft is a chain with one trial a row."""
    if not draft.is_chain:
        raise ConfigError(f"Rule '{rule}' verifies chains only; use rule 'multi' for a tree.")
