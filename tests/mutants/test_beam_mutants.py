"""Faults in speculative beam search: comparing it with plain beam search must see them."""

from __future__ import annotations

import pytest

from paceline.engine.beam import Search, SlotStore
from paceline.engine.beam_drafts import Beam
from paceline.types import BeamSearchParams
from tests.habits import HABIT, LIKE, habits
from tests.unit.engine.test_beam_search import found, plain, search

PARAMS = BeamSearchParams(beam_width=3, max_tokens=9)


def holds():
    """Whether drafted beams are the plain ones, and each row read its own path: the oracle asserts
    the latter.
    """
    engine = habits("model:like")
    try:
        return all(
            found(search(engine, prompt, PARAMS, "model:like", k=3)) == plain(HABIT, prompt, PARAMS)
            for prompt in ("abc", "abcabc", "cab")
        )
    except AssertionError:
        return False


def scores_of_the_draft(monkeypatch):
    """Drafted rows are scored by the model that drafted them."""
    honest = Search._scores

    def scores(self, own, drafts):
        found = [rows.clone() for rows in honest(self, own, drafts)]
        for beam, draft, rows in zip(self.beams, drafts, found, strict=True):
            for row in range(1, len(draft) + 1):
                rows[row] = LIKE.logits([*beam.tokens, *draft.tree.path_tokens(row)])
        return found

    monkeypatch.setattr(Search, "_scores", scores)


def another_beams_slots(monkeypatch):
    """Slots are taken back while a beam still reads them."""
    honest = SlotStore.keep
    monkeypatch.setattr(SlotStore, "keep", lambda self, held: honest(self, list(held)[:1]))


def logprobs_start_anew(monkeypatch):
    """A beam's log-probability is that of its last pass alone."""
    honest = Search._grown

    def grown(self, one, own):
        beam = honest(self, one, own)
        return Beam(name=beam.name, tokens=beam.tokens, slots=beam.slots)

    monkeypatch.setattr(Search, "_grown", grown)


def best_of_the_first_beam(monkeypatch):
    """Where the pass holds no row of a beam that is kept, it goes on with those it holds."""
    honest = Search._step

    def step(self, kept, logits, drafts):
        grown = honest(self, kept, logits, drafts)
        held = [one for one in grown if one.row is not None]
        return held or grown

    monkeypatch.setattr(Search, "_step", step)


FAULTS = [scores_of_the_draft, another_beams_slots, logprobs_start_anew, best_of_the_first_beam]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_it_is_caught(monkeypatch, fault):
    fault(monkeypatch)
    assert not holds()


def test_without_a_fault_it_holds():
    assert holds()
