"""The law of texts: outputs that read alike are one, and end where the model ends."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.certify.forced import JointLaw
from paceline.certify.texts import text_law


class Letters:
    """Ids 0, 1, 2 are "a", "b", "ab"; 3 ends a text; 4 is half a character."""

    eos_ids = frozenset({3})

    def decode(self, ids):
        return "".join(["a", "b", "ab", "<end>", "�"][i] for i in ids)


@pytest.fixture
def law():
    joint = JointLaw(
        tokens=np.array([[0, 1, 2], [2, 0, 1], [0, 3, 1], [0, 3, 2], [0, 4, 4]]),
        ranks=np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 2, 0]]),
        probs=np.array([0.4, 0.3, 0.125, 0.125, 0.05]),
    )
    return text_law(joint, Letters())


def test_texts_that_read_alike_are_one(law):
    """ "abab" in two ways; "a" ended, with anything after it, or with half a character."""
    assert law.texts == {"abab": 0, "a": 1}
    assert law.probs.tolist() == pytest.approx([0.7, 0.3])
    assert law.shared_mass == pytest.approx(1)


def test_places_are_shared_as_sets(law):
    assert law.ranks.tolist() == [[0, 0, 0], [1, 1, 0]]


def test_counts(law):
    assert law.count(["abab", "a", " a\ufffd", "b", "abab"]).tolist() == [2, 2]
