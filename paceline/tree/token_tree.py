"""A tree of drafted tokens. Row 0 is the root, the last committed token; row j + 1 is node j."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from paceline.errors import ConfigError


@dataclass(frozen=True)
class TokenTree:
    """Drafted tokens under the last committed token; a chain is a tree with one branch.

    Nodes are in topological order, so a parent's row is below its children's.

    Raises:
        ConfigError: a parent that does not come first, or two equal tokens under one parent.
    """

    tokens: tuple[int, ...] = ()
    """Token of node j; its row is j + 1."""
    parents: tuple[int, ...] = ()
    """Row of node j's parent; 0 is the root."""

    def __post_init__(self) -> None:
        """Check the order of the rows and that siblings differ."""
        if len(self.tokens) != len(self.parents):
            raise ConfigError("A token tree needs one parent for each token.")
        if self.is_chain:
            return
        for node, parent in enumerate(self.parents):
            if not 0 <= parent <= node:
                raise ConfigError(f"Node {node} of a token tree has the parent row {parent}.")
        if len(set(zip(self.parents, self.tokens, strict=True))) != len(self.tokens):
            raise ConfigError("Two nodes under one parent hold the same token; they share a row.")

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def children(self) -> tuple[dict[int, int], ...]:
        """For each row, its children: token -> row."""
        table: tuple[dict[int, int], ...] = tuple({} for _ in range(len(self) + 1))
        for node, (token, parent) in enumerate(zip(self.tokens, self.parents, strict=True)):
            table[parent][token] = node + 1
        return table

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """For each row, its distance from the root."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @property
    def is_chain(self) -> bool:
        """Whether every node's parent is the row before it."""
        return self.parents == tuple(range(len(self)))

    def path(self, row: int) -> tuple[int, ...]:
        """The rows from below the root to `row`, in order; empty for the root."""
        rows = []
        while row:
            rows.append(row)
            row = self.parents[row - 1]
        return tuple(reversed(rows))

    def path_tokens(self, row: int) -> tuple[int, ...]:
        """The tokens from below the root to `row`."""
        return tuple(self.tokens[r - 1] for r in self.path(row))


def kv_moves(path: tuple[int, ...]) -> list[tuple[int, int]]:
    """(from, to) rows that make the accepted path contiguous behind the root.

    `to` is never above `from` and both rise, so the moves may be done in order in place.
    """
    return [(row, depth) for depth, row in enumerate(path, start=1) if row != depth]
