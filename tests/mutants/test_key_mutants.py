"""Keys with a part left out: one uniform decides two things, and the proofs must see it.

On a chain a row is a position less the base, so the row alone would do there; a key of the position
alone does not.
"""

from __future__ import annotations

import pytest

from paceline.certify.enumerate import Address, Enumerating
from paceline.chooser import Purpose
from paceline.verify import rules


class ByPosition(Enumerating):
    """Keys without the pass's base: the next pass asks the same uniforms of a position again."""

    def address(self, draw):
        return Address(None, draw._replace(row=0))


class WithoutPurpose(Enumerating):
    """The uniform that drew a token also decides whether it is accepted."""

    def address(self, draw):
        return Address(self.base, draw._replace(purpose=Purpose.DRAFT))


class WithoutTrial(Enumerating):
    """All trials of a node ask one uniform."""

    def address(self, draw):
        return Address(self.base, draw._replace(trial=0))


class WithoutPlace(Enumerating):
    """All draws of a pass ask one uniform for each purpose."""

    def address(self, draw):
        return Address(self.base, draw._replace(row=0, position=0))


@pytest.mark.parametrize(
    ("chooser", "name"),
    [
        (ByPosition, "block"),
        (WithoutPurpose, "token"),
        (WithoutPurpose, "block"),
        (WithoutPurpose, "multi"),
        (WithoutTrial, "multi"),
        (WithoutPlace, "token"),
        (WithoutPlace, "block"),
    ],
)
def test_keys(caught, chooser, name):
    assert caught(rules[name], chooser=chooser)
