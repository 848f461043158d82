"""Token trees: rows, paths, the moves that commit a path, and what is refused."""

from __future__ import annotations

import pytest

from paceline.errors import ConfigError
from paceline.tree import TokenTree, kv_moves

#        root
#       5    6
#      7 8    9
#        5
TREE = TokenTree((5, 6, 7, 8, 9, 5), (0, 0, 1, 1, 2, 4))


def test_rows_of_a_tree():
    assert len(TREE) == 6
    assert TREE.depths == (0, 1, 1, 2, 2, 2, 3)
    assert TREE.children == ({5: 1, 6: 2}, {7: 3, 8: 4}, {9: 5}, {}, {5: 6}, {}, {})
    assert not TREE.is_chain


@pytest.mark.parametrize(
    ("row", "path", "tokens"),
    [(0, (), ()), (2, (2,), (6,)), (6, (1, 4, 6), (5, 8, 5)), (5, (2, 5), (6, 9))],
)
def test_paths(row, path, tokens):
    assert TREE.path(row) == path
    assert TREE.path_tokens(row) == tokens


def test_a_chain_is_a_tree():
    chain = TokenTree((4, 4, 4), (0, 1, 2))
    assert chain.is_chain
    assert chain.path(3) == (1, 2, 3)
    assert TokenTree().is_chain
    assert TokenTree().children == ({},)


@pytest.mark.parametrize(
    ("path", "moves"),
    [((), []), ((1, 2, 3), []), ((2, 5), [(2, 1), (5, 2)]), ((1, 4, 6), [(4, 2), (6, 3)])],
)
def test_moves(path, moves):
    assert kv_moves(path) == moves


@pytest.mark.parametrize("row", range(len(TREE) + 1))
def test_moves_in_place_leave_the_path(row):
    slots = ["root", *TREE.tokens]
    for source, to in kv_moves(TREE.path(row)):
        slots[to] = slots[source]
    depth = TREE.depths[row]
    assert tuple(slots[1 : depth + 1]) == TREE.path_tokens(row)


@pytest.mark.parametrize(
    ("tokens", "parents", "message"),
    [
        ((1, 2), (0,), "one parent for each token"),
        ((1,), (1,), "Node 0 .* parent row 1"),
        ((1, 2), (0, 2), "Node 1 .* parent row 2"),
        ((1,), (-1,), "parent row -1"),
        ((1, 1), (0, 0), "share a row"),
    ],
)
def test_what_is_refused(tokens, parents, message):
    with pytest.raises(ConfigError, match=message):
        TokenTree(tokens, parents)
