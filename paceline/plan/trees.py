"""Trees of drafted tokens: what they are worth and which is best.

A tree is `parents`: parents[j] is the row of node j's parent, row 0 the root, node j in row j + 1,
as in `paceline.tree`. Acceptance is conditional: P(node j accepted | its parent was). Siblings that
are point masses exclude each other, so theirs add up to at most 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError

Children = Callable[[tuple[int, ...]], Sequence[float]]
"""Path of ranks from the root -> acceptance of each child there, the likeliest first."""


def path_probabilities(parents: Sequence[int], acceptances: Sequence[float]) -> list[float]:
    """P(node j is accepted): the product of the acceptances on its path.

    Raises:
        ConfigError: a parent that does not come first, or no probability.
    """
    found = [1.0]
    for node, (parent, acceptance) in enumerate(zip(parents, acceptances, strict=True)):
        if not 0 <= parent <= node or not 0 <= acceptance <= 1:
            raise ConfigError(f"Node {node} has parent row {parent}, acceptance {acceptance}.")
        found.append(found[parent] * acceptance)
    return found[1:]


def expected_tokens_tree(parents: Sequence[int], acceptances: Sequence[float]) -> float:
    """Committed tokens per pass: 1 + the path probabilities of all nodes (Sequoia, 2402.12374).

    Two children of .6 and .3, and one of .5 under the first: 1 + .6 + .3 + .3 = 2.2. On a chain it
    is 1 + a_1 + a_1 a_2 + ….
    """
    return 1 + sum(path_probabilities(parents, acceptances))


@dataclass(frozen=True)
class BestTree:
    """The tree that pays most for its number of nodes."""

    parents: tuple[int, ...]
    ranks: tuple[int, ...]
    """Which child of its parent a node is, the likeliest first."""
    probabilities: tuple[float, ...]
    """Of each node to be accepted; falling, so the first n nodes are the best tree of n."""

    @property
    def expected_tokens(self) -> float:
        """Committed tokens per pass."""
        return 1 + sum(self.probabilities)


def best_tree(children: Children, nodes: int) -> BestTree:
    """The tree of `nodes` point masses of most expected tokens: the likeliest paths, greedily.

    A node is never likelier than its parent, so the likeliest nodes always form a tree, and as the
    expectation is their sum no other tree of that size beats it. With acceptances (.6, .3) at every
    node and 4 nodes: .6, .36, .3, .216 and E = 2.476; a chain of 4 has 2.306.
    """
    found: list[tuple[int, int, float]] = []
    open_nodes = sprout(children, (), 0, 1.0)
    heapq.heapify(open_nodes)
    while open_nodes and len(found) < nodes:
        falling, path, parent = heapq.heappop(open_nodes)
        found.append((parent, path[-1], -falling))
        for entry in sprout(children, path, len(found), -falling):
            heapq.heappush(open_nodes, entry)
    parents, ranks, probabilities = zip(*found, strict=True) if found else ((), (), ())
    return BestTree(tuple(parents), tuple(ranks), tuple(probabilities))


def sprout(
    children: Children, path: tuple[int, ...], row: int, probability: float
) -> list[tuple[float, tuple[int, ...], int]]:
    """Heap entries (-probability, path, parent row) of a node's children."""
    return [
        (-probability * acceptance, (*path, rank), row)
        for rank, acceptance in enumerate(children(path))
        if acceptance > 0
    ]


def by_rank(acceptances: Sequence[Sequence[float]]) -> Children:
    """Children whose acceptance depends on depth and rank: acceptances[depth][rank]."""
    return lambda path: acceptances[len(path)] if len(path) < len(acceptances) else ()
