"""Prompt lookup: hand-made texts, a naive scan, work, budgets and memory."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.drafters import drafters
from paceline.drafters.ngram import LiveNgram, Ngram, NgramIndex, copy
from paceline.errors import ConfigError
from paceline.registry import OptionString
from paceline.tree import NO_DRAFT, Draft, PointMass


def chain(*tokens: int) -> Draft:
    return Draft.chain(PointMass(token) for token in tokens)


def propose(context, tokens, budget=4, min_n=1, max_n=3) -> Draft:
    return LiveNgram(min_n, max_n).propose([context(tokens)], [budget])[0]


def naive(tokens: list[int], count: int, min_n: int, max_n: int) -> list[int]:
    """Scan for the latest earlier occurrence of the longest last n-gram; copy token by token."""
    for n in range(max_n, min_n - 1, -1):
        for start in range(len(tokens) - n - 1, -1, -1):
            if tokens[start : start + n] == tokens[-n:]:
                text = list(tokens)
                for offset in range(count):
                    text.append(text[start + n + offset])
                return text[len(tokens) :]
    return []


def test_it_proposes_what_followed(context):
    assert propose(context, [1, 2, 3, 4, 5, 9, 2, 3]) == chain(4, 5, 9, 2)


def test_the_longest_match_wins_over_a_later_shorter_one(context):
    assert propose(context, [1, 2, 3, 7, 8, 3, 9, 1, 2, 3], budget=2) == chain(7, 8)


def test_among_equal_matches_the_latest_wins(context):
    assert propose(context, [2, 3, 7, 2, 3, 8, 2, 3], budget=1) == chain(8)


def test_past_the_end_the_copy_goes_on_from_itself(context):
    assert propose(context, [5, 1, 2, 1, 2], budget=5) == chain(1, 2, 1, 2, 1)
    assert propose(context, [7, 7], budget=3) == chain(7, 7, 7)


def test_nothing_matches(context):
    assert propose(context, [1, 2, 3, 4]) is NO_DRAFT
    assert propose(context, [1]) is NO_DRAFT
    assert propose(context, [1, 2, 9, 2], min_n=2) is NO_DRAFT


def test_the_token_zero_is_no_padding(context):
    """One 0 is not the two-gram (0, 0), though both are the integer 0 when packed."""
    assert propose(context, [0, 0], min_n=2) is NO_DRAFT
    assert propose(context, [0, 0, 5, 0, 0], budget=1, min_n=2) == chain(5)
    assert propose(context, [5, 0, 6, 9, 0, 5, 0], budget=1, min_n=2) == chain(6)


def test_budgets_are_kept_one_by_one(context):
    tokens = [1, 2, 3, 4, 1]
    contexts = [context(tokens, request_id=str(i)) for i in range(4)]
    drafts = LiveNgram(1, 2).propose(contexts, [0, 1, 2, 7])
    assert drafts == [
        NO_DRAFT,
        chain(2),
        chain(2, 3),
        chain(2, 3, 4, 1, 2, 3, 4),
    ]


def test_requests_do_not_see_each_other(context):
    live = LiveNgram(1, 2)
    live.propose([context([1, 2, 1], request_id="a")], [2])
    assert live.propose([context([1, 3], request_id="b")], [2]) == [NO_DRAFT]


def test_a_request_that_was_put_off_proposes_the_same_again(context):
    live, tokens = LiveNgram(1, 2), [1, 2, 3, 1]
    first = live.propose([context(tokens)], [2])
    assert live.propose([context(tokens)], [2]) == first == [chain(2, 3)]
    tokens.append(9)
    assert live.propose([context(tokens)], [2]) == [NO_DRAFT]


def test_a_released_id_starts_afresh(context):
    live = LiveNgram(1, 1)
    live.propose([context([1, 2, 3, 1])], [1])
    live.release("a")
    live.release("never seen")
    assert live.propose([context([1, 7, 1])], [1]) == [chain(7)]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.integers(1, 3),
    st.integers(0, 3),
    st.lists(st.integers(1, 6), max_size=10),
)
@settings(max_examples=150, deadline=None)
def test_it_is_the_naive_scan_however_the_text_grows(tokens, min_n, more, cuts):
    max_n = min_n + more
    index = NgramIndex(range(min_n, max_n + 1))
    end = 0
    for cut in (*cuts, len(tokens)):
        end = min(end + cut, len(tokens))
        text = tokens[:end]
        index.extend(text)
        start = index.find()
        found = [] if start is None else copy(text, start, 7)
        assert found == naive(text, 7, min_n, max_n)


def test_a_step_reads_its_new_tokens_and_its_draft_and_no_more(context, watched):
    tokens = watched(i % 997 for i in range(50_000))
    live = LiveNgram(2, 4)
    live.propose([context(tokens)], [4])
    for step in range(20):
        tokens.extend([step, step + 1, step + 2])
        tokens.reads = 0
        live.propose([context(tokens)], [4])
        assert tokens.reads <= 3 + 4


def test_memory_is_flat_over_many_requests(context):
    live = LiveNgram(2, 4)

    def serve(requests: range) -> int:
        for i in requests:
            live.propose([context(list(range(i, i + 200)), request_id=str(i))], [4])
            live.release(str(i))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    before = serve(range(20))
    after = serve(range(20, 120))
    tracemalloc.stop()
    assert after - before < 20_000


def test_options():
    built = OptionString.parse("ngram:k=3:min_n=1:max_n=5").build(drafters["ngram"], "drafter")
    assert built == Ngram(k=3, min_n=1, max_n=5)
    assert OptionString.parse("ngram:6").build(drafters["ngram"], "drafter") == Ngram(k=6)
    assert (Ngram().needs.trees, Ngram().needs.hidden_layers) == (False, ())


@pytest.mark.parametrize("wrong", [{"k": 0}, {"min_n": 0}, {"min_n": 5, "max_n": 4}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ConfigError, match="ngram"):
        Ngram(**wrong)
