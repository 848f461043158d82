"""A draft of another vocabulary: which tokens are shared, what it reads, and from which law."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from paceline.drafters.intersect import TAIL, Reading, SharedIds
from paceline.errors import ConfigError, VocabularyError
from paceline.sampling import to_probs
from paceline.types import SamplingParams, Speculation
from paceline.verify.laws import as_law
from tests.engines import engine, expected, request, run
from tests.oracle import Letters, Oracle
from tests.syllables import DRAFTER, PIECES, Reader, Syllables, spelt, syllable_engine

TARGET = Oracle(vocab_size=6)
SHARED = {0: 3, 1: 5, 2: 2, 3: 6, 4: 7}
"""Letters a to e, and their ids among the syllables; f is the target's alone."""


def test_what_is_shared_goes_by_bytes():
    shared = SharedIds(Letters(), Syllables(), 6, len(PIECES))
    assert {token: shared.to_own(token) for token in range(6) if token in shared} == SHARED
    logits = torch.arange(10.0)[None]
    assert shared.to_target(logits).tolist() == [[3, 5, 2, 6, 7, -torch.inf]]


def test_a_head_that_is_cut_shares_what_it_has():
    shared = SharedIds(Letters(), Syllables(), 6, 4)
    assert [token for token in range(6) if token in shared] == [0, 2]


def test_nothing_shared_is_refused():
    with pytest.raises(VocabularyError, match="share no token"):
        SharedIds(Letters(), Syllables(), 6, 2)


def test_a_mismatch_names_the_option_and_another_value_is_refused():
    with (
        patch("paceline.drafters.model.load_model", lambda *_, **__: Reader()),
        pytest.raises(VocabularyError, match="id 0 is 'a' to the target and '<s>' to the draft"),
    ):
        engine("model:reader", target=TARGET)
    with pytest.raises(ConfigError, match="vocabulary must be same or intersect, not 'union'"):
        engine("model:reader:vocabulary=union", target=TARGET)


def test_a_text_is_read_as_if_at_once():
    """However it grew, it starts with one <s> and goes on without another."""
    tokens = Letters().encode("abcabacabdeabcbabaedabcabcab" * 3)
    reading = Reading(Letters(), Syllables())
    for end in (1, 2, 3, 9, 10, 40, 41, 60, len(tokens)):
        ids = list(reading.update(tokens[:end]))
        assert ids == Syllables().encode(Letters().decode(tokens[:end]), add_special=True)
        assert ids.count(0) == 1


def test_only_the_end_of_a_text_is_read_again():
    own = Syllables()
    reading, seen, encode = Reading(Letters(), own), [], own.encode
    own.encode = lambda text, **how: seen.append(len(text)) or encode(text, **how)
    tokens = Letters().encode("abdca" * 40)
    for end in range(100, 200):
        reading.update(tokens[:end])
    assert max(seen[1:]) <= 3 * TAIL + 1


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"seed": 5, "top_p": 0.9}])
def test_the_text_is_that_of_plain_decoding(settings):
    prompts = ["abc", "abcabcabfcabc", "f", "bacbabc"]
    outputs = run(syllable_engine(TARGET), *(request(p, p, **settings) for p in prompts))
    for prompt, output in zip(prompts, outputs, strict=True):
        params = SamplingParams(max_tokens=20, **settings)
        assert list(output.token_ids) == expected(prompt, params, TARGET)
    assert sum(output.counts.accepted for output in outputs) > 5


def test_each_draft_is_drawn_from_the_shared_tokens_of_what_was_read():
    """Its law is the draft's own after the text in the draft's ids, less what is not shared."""
    draft = Reader()
    watched = syllable_engine(TARGET, draft)
    live, checked = watched._drafters[DRAFTER].live, 0
    propose = live.propose

    def see(contexts, budgets):
        nonlocal checked
        draft.texts.clear()
        drafts = propose(contexts, budgets)
        for ctx, made in zip(contexts, drafts, strict=True):
            text = TARGET.tokenizer.decode(ctx.tokens)
            own = draft.tokenizer.encode(text, add_special=True)
            for depth, law in enumerate(made.draft_probs or ()):
                read = [*own, *(SHARED[t] for t in made.tree.tokens[:depth])]
                assert tuple(read) in draft.texts
                logits = torch.full((6,), -torch.inf)
                logits[list(SHARED)] = draft.logits(read)[list(SHARED.values())]
                wanted = to_probs(logits[None], [ctx.params])[0]
                assert list(as_law(law)) == wanted.tolist()
                checked += 1
        return drafts

    live.propose = see
    names = ["abc", "abcabcfabcabc", "ba"]
    rule = Speculation(k=3, rule="block")
    for seed in range(2):
        run(watched, *(request(n, n, rule, top_k=5, seed=seed) for n in names))
    assert checked > 60
    assert all(spelt(text) for text in draft.texts)


def test_it_feeds_what_changed_and_no_more():
    """After the prompt, a pass runs the new tokens and those at the end that they changed."""
    draft = Reader()
    run(
        syllable_engine(TARGET, draft), request("r", "abcab" * 4, Speculation(k=2), temperature=0.0)
    )
    assert max(draft.passes[1:]) <= 8


def test_without_blocks_or_context_it_does_not_draft():
    for draft in (Reader(max_model_len=4), Reader(vocab_size=len(PIECES), max_model_len=1)):
        (output,) = run(syllable_engine(TARGET, draft), request("r", "abcabdeab", temperature=0.0))
        assert output.counts.proposed == 0
        assert list(output.token_ids) == expected(
            "abcabdeab", SamplingParams(max_tokens=20, temperature=0), TARGET
        )


def test_blocks_come_back():
    watched = syllable_engine(TARGET)
    live = watched._drafters[DRAFTER].live
    run(watched, request("a"), request("b", "cab", max_tokens=9))
    live._pool.check_idle()
    assert not live._states
