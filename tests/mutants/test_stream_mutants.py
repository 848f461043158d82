"""Draws from a shared stream: the text of a seed then depends on what else was drawn."""

from __future__ import annotations

from itertools import count

import pytest

from paceline.certify.enumerate import Address, Enumerating
from paceline.certify.parity import check_parity
from paceline.chooser import Draw, Keyed, Purpose
from paceline.chooser.bits import hash_key
from paceline.types import SamplingParams
from paceline.verify import rules


class Stream(Enumerating):
    """Each race takes the next number, whatever position it is for."""

    def __init__(self, *args):
        super().__init__(*args)
        self._next = count()

    def race(self, law, position, rank=0):
        return self._locate(Address(self.base, Draw(next(self._next), 0, 0, Purpose.RACE)), law)


def test_proofs_catch_it(caught):
    assert "plain decoding" in caught(rules["coupled"], chooser=Stream)


@pytest.mark.parametrize("shared", [True, False])
def test_parity_catches_it(mini, monkeypatch, shared):
    numbers = count()
    if shared:
        monkeypatch.setattr(
            Keyed, "race_key", lambda self, position: hash_key(self.seed, next(numbers))
        )
    params = SamplingParams(temperature=1, seed=3, max_tokens=12)
    prompts = [mini.encode("import os\nimport"), mini.encode("def f(")]
    report = check_parity(mini, prompts, params, batch=2)
    assert report.passed is not shared
    assert all(fork.margin < 20 for fork in report.forks)
