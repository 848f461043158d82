"""Drafts: trials and nodes fit each other, and equal tokens share a node."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from paceline.errors import ConfigError
from paceline.tree import NO_DRAFT, Draft, DraftBuilder, PointMass, Sampled, TokenTree


def test_equal_tokens_share_a_node_and_keep_their_trials():
    builder = DraftBuilder()
    law = torch.tensor([0.25, 0.75], dtype=torch.float64)
    rows = [builder.point(0, 1), builder.sampled(0, 1, law), builder.sampled(0, 0, law)]
    below = builder.point(rows[1], 0)
    assert rows == [1, 1, 2]
    assert below == 3
    assert [builder.trial_count(row) for row in range(4)] == [3, 1, 0, 0]
    assert [builder.token(row) for row in (1, 2, 3)] == [1, 0, 0]
    assert len(builder) == 3
    draft = builder.build()
    assert draft.tree == TokenTree((1, 0, 0), (0, 0, 1))
    assert draft.trials == ((PointMass(1), Sampled(1, 0), Sampled(0, 1)), (PointMass(0),), (), ())
    assert torch.equal(draft.draft_probs, torch.stack([law, law]))
    assert len(draft) == 3


def test_the_same_token_under_two_parents_is_two_nodes():
    builder = DraftBuilder()
    first = builder.point(0, 4)
    assert builder.point(first, 4) == 2
    assert builder.build().is_chain


def test_fractions_stay_fractions():
    builder = DraftBuilder()
    builder.sampled(0, 0, [Fraction(1, 3), Fraction(2, 3)])
    assert builder.build().draft_probs == [[Fraction(1, 3), Fraction(2, 3)]]
    assert DraftBuilder().build() == NO_DRAFT


def test_a_chain():
    draft = Draft.chain([PointMass(2), Sampled(3, 0)], [[0, 0, 0, 1]])
    assert draft.is_chain
    assert draft.tree.tokens == (2, 3)
    assert draft.trials == ((PointMass(2),), (Sampled(3, 0),), ())
    assert Draft.chain([]) == NO_DRAFT


def test_two_trials_of_one_token_are_no_chain():
    builder = DraftBuilder()
    builder.point(0, 1)
    assert builder.build().is_chain
    builder.point(0, 1)
    assert not builder.build().is_chain


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        (((PointMass(1),),), "one tuple of trials for each row"),
        (((PointMass(2),), ()), "trials of row 0"),
        (((), ()), "trials of row 0"),
        (((PointMass(1),), (PointMass(1),)), "trials of row 1"),
    ],
)
def test_trials_that_do_not_fit(trials, message):
    with pytest.raises(ConfigError, match=message):
        Draft(TokenTree((1,), (0,)), trials)
