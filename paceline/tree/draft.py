"""A Draft: a token tree and, for each of its rows, the ordered trials that propose its children."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from paceline.errors import ConfigError
from paceline.tree.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class PointMass:
    """A token proposed for certain (argmax, lookup): its law is one-hot, q(token) = 1."""

    token: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """A token drawn from row `law` of the draft's `draft_probs`.

    The law is the one it was really drawn from, given its ancestors and the trials before it: for
    siblings without replacement each has a row of its own.
    """

    token: int
    law: int


Trial = PointMass | Sampled


@dataclass(frozen=True)
class Draft:
    """What a drafter proposes for one request and pass.

    Two trials of a row may hold the same token: they share a node (one KV row), and both are tried.

    Raises:
        ConfigError: trials and tree do not fit each other.
    """

    tree: TokenTree = field(default_factory=TokenTree)
    trials: tuple[tuple[Trial, ...], ...] = ((),)
    """For each row, its trials in the order in which they are to be tried."""
    draft_probs: Any = None
    """[R, V]: the laws that `Sampled.law` points to (a float64 tensor, or one law a row, some of
    them sparse; fractions in proofs)."""

    def __post_init__(self) -> None:
        """Check that trials and nodes are the same set."""
        if len(self.trials) != len(self.tree) + 1:
            raise ConfigError("A draft needs one tuple of trials for each row of its tree.")
        for row, (trials, children) in enumerate(zip(self.trials, self.tree.children, strict=True)):
            if children.keys() != {t.token for t in trials}:
                raise ConfigError(f"The trials of row {row} are not the children of row {row}.")

    def __len__(self) -> int:
        """The number of proposed tokens (nodes)."""
        return len(self.tree)

    @cached_property
    def is_chain(self) -> bool:
        """Whether the tree is a chain with one trial a row."""
        return self.tree.is_chain and all(len(t) <= 1 for t in self.trials)

    @classmethod
    def chain(cls, trials: Iterable[Trial], draft_probs: Any = None) -> Draft:
        """One branch: each trial stands under the one before it."""
        trials = tuple(trials)
        tree = TokenTree(tuple(t.token for t in trials), tuple(range(len(trials))))
        return cls(tree, (*((t,) for t in trials), ()), draft_probs)


NO_DRAFT = Draft()


class DraftBuilder:
    """Grows a draft trial by trial; equal tokens under one row share a node."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._trials: list[list[Trial]] = [[]]
        self._rows: dict[tuple[int, int], int] = {}
        self._laws: list[Any] = []

    def __len__(self) -> int:
        return len(self._tokens)

    def trial_count(self, row: int) -> int:
        """How many trials the row has: the ordinal of its next one."""
        return len(self._trials[row])

    def token(self, row: int) -> int:
        """The token of a node's row."""
        return self._tokens[row - 1]

    def point(self, parent: int, token: int) -> int:
        """Add a point mass under the row `parent`; return the row of its node."""
        return self._add(parent, PointMass(token))

    def sampled(self, parent: int, token: int, law: Any) -> int:
        """Add a token that was drawn from law[V] under the row `parent`; return its node's row."""
        self._laws.append(law)
        return self._add(parent, Sampled(token, len(self._laws) - 1))

    def _add(self, parent: int, trial: Trial) -> int:
        self._trials[parent].append(trial)
        row = self._rows.setdefault((parent, trial.token), len(self._tokens) + 1)
        if row > len(self._tokens):
            self._tokens.append(trial.token)
            self._parents.append(parent)
            self._trials.append([])
        return row

    def build(self) -> Draft:
        """The finished draft; laws that are tensors are stacked to draft_probs[R, V]."""
        return Draft(
            TokenTree(tuple(self._tokens), tuple(self._parents)),
            tuple(tuple(t) for t in self._trials),
            stack(self._laws),
        )


def stack(laws: Sequence[Any]) -> Any:
    """Stack tensors to [R, V]; leave other laws a list; None for no rows."""
    if laws and isinstance(laws[0], Tensor):
        return torch.stack(list(laws))
    return list(laws) or None
