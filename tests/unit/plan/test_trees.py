"""Trees of point masses: worth by enumeration, and the best by trying all."""

from __future__ import annotations

import itertools

import pytest

from paceline.errors import ConfigError
from paceline.plan.throughput import expected_tokens_conditional
from paceline.plan.trees import best_tree, by_rank, expected_tokens_tree, path_probabilities

RANKS = ((0.5, 0.3, 0.1), (0.7, 0.2), (0.9, 0.05))


def test_worked_example():
    assert expected_tokens_tree((0, 0, 1), (0.6, 0.3, 0.5)) == pytest.approx(2.2)
    assert path_probabilities((0, 0, 1), (0.6, 0.3, 0.5)) == pytest.approx([0.6, 0.3, 0.3])
    with pytest.raises(ConfigError, match="parent row 2"):
        path_probabilities((0, 2), (0.5, 0.5))


def test_a_chain_is_a_tree():
    alphas = (0.8, 0.5, 0.9)
    assert expected_tokens_tree((0, 1, 2), alphas) == pytest.approx(
        expected_tokens_conditional(alphas)
    )


def test_expectation_by_enumerating_what_the_target_says():
    """Under the root the target says child 0 (.6), child 1 (.3) or neither, and so on below."""
    parents, acceptances = (0, 0, 1, 1, 2), (0.6, 0.3, 0.5, 0.4, 0.9)
    total = 0.0
    for outcome in itertools.product((0, 1, None), repeat=3):
        probability, said = 1.0, dict(zip((0, 1, 2), outcome, strict=True))
        for row, child in said.items():
            rates = [a for a, parent in zip(acceptances, parents, strict=True) if parent == row]
            rates += [0.0] * (2 - len(rates))
            probability *= rates[child] if child is not None else 1 - sum(rates)
        if not probability:
            continue
        row, depth = 0, 0
        while said.get(row) is not None:
            below = [node + 1 for node, parent in enumerate(parents) if parent == row]
            row, depth = below[said[row]], depth + 1
        total += probability * (1 + depth)
    assert expected_tokens_tree(parents, acceptances) == pytest.approx(total)


def test_best_tree_worked():
    found = best_tree(by_rank(((0.6, 0.3),) * 4), 4)
    assert found.probabilities == pytest.approx((0.6, 0.36, 0.3, 0.216))
    assert found.expected_tokens == pytest.approx(2.476)
    assert expected_tokens_conditional((0.6,) * 4) == pytest.approx(2.306, abs=5e-4)
    assert found.parents == (0, 1, 0, 2)
    assert found.ranks == (0, 0, 1, 0)


@pytest.mark.parametrize("nodes", [0, 1, 2, 3, 4, 5])
def test_no_tree_of_the_size_is_better(nodes):
    whole = best_tree(by_rank(RANKS), 100)
    rows = range(len(whole.parents))
    worth = [
        1 + sum(whole.probabilities[n] for n in chosen)
        for chosen in itertools.combinations(rows, nodes)
        if all(whole.parents[n] == 0 or whole.parents[n] - 1 in chosen for n in chosen)
    ]
    found = best_tree(by_rank(RANKS), nodes)
    assert found.expected_tokens == pytest.approx(max(worth))
    acceptances = [RANKS[depth(found.parents, n)][found.ranks[n]] for n in range(nodes)]
    assert expected_tokens_tree(found.parents, acceptances) == pytest.approx(max(worth))


def depth(parents, node):
    return 0 if parents[node] == 0 else 1 + depth(parents, parents[node] - 1)


def test_the_tree_ends_where_there_is_nothing_more():
    assert len(best_tree(by_rank(RANKS), 100).parents) == 3 + 3 * 2 + 3 * 2 * 2
