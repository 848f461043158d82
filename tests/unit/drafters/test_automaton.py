"""The counting suffix automaton against brute force over all substrings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.drafters.automaton import BREAK, ROOT, WIDTH, SuffixAutomaton

TEXTS = st.lists(st.integers(0, 2), max_size=40) | st.lists(st.integers(0, 7), max_size=40)


def grown(tokens: list[int], depth: int) -> SuffixAutomaton:
    text = SuffixAutomaton(depth)
    for token in tokens:
        text.append(token)
    return text


def ends(tokens: list[int], part: tuple[int, ...]) -> list[int]:
    """Where `part` ends in `tokens` (exclusive)."""
    n = len(part)
    return [end for end in range(n, len(tokens) + 1) if tuple(tokens[end - n : end]) == part]


def substrings(tokens: list[int], longest: int) -> set[tuple[int, ...]]:
    return {
        tuple(tokens[start:end])
        for start in range(len(tokens))
        for end in range(start + 1, min(start + longest, len(tokens)) + 1)
    }


def state_of(text: SuffixAutomaton, part: tuple[int, ...]) -> int:
    state = ROOT
    for token in part:
        state = text.next[state][token]
    return state


def ranking(tokens: list[int], part: tuple[int, ...]) -> list[tuple[int, float]]:
    """Followers of `part` by count, then latest first, each with its frequency."""
    followed = [end for end in ends(tokens, part) if end < len(tokens)]
    counts: dict[int, int] = {}
    latest: dict[int, int] = {}
    for end in followed:
        counts[tokens[end]] = counts.get(tokens[end], 0) + 1
        latest[tokens[end]] = end
    order = sorted(counts, key=lambda t: (-counts[t], -latest[t]))
    return [(t, counts[t] / len(followed)) for t in order if t != BREAK]


@given(TEXTS, st.integers(2, 9))
@settings(max_examples=200, deadline=None)
def test_counts_are_those_of_all_substrings(tokens, depth):
    text = grown(tokens, depth)
    assert len(text) == len(tokens)
    for part in substrings(tokens, depth):
        state = state_of(text, part)
        assert text.shortest(state) <= len(part) <= text.length[state]
        assert text.count[state] == len(ends(tokens, part))


@given(TEXTS, st.integers(2, 9))
@settings(max_examples=200, deadline=None)
def test_followers_are_ranked_by_count_then_the_latest(tokens, depth):
    """Those of the longest suffix that was followed and is as good as shorter than the depth."""
    text = grown(tokens, depth)
    for part in substrings(tokens, depth + 2):
        known = part
        while known and not (ranking(tokens, known) and len(distinct(tokens, known)) < depth):
            known = known[1:]
        found = [(t, share) for t, _, share in text.followers(state_of(text, part), WIDTH)]
        assert found == (ranking(tokens, known)[:WIDTH] if known else [])


def distinct(tokens: list[int], part: tuple[int, ...]) -> tuple[int, ...]:
    """The shortest suffix of `part` that occurs nowhere else."""
    return next(
        part[start:]
        for start in range(len(part) - 1, -1, -1)
        if ends(tokens, part[start:]) == ends(tokens, part)
    )


@given(TEXTS, TEXTS)
@settings(max_examples=150, deadline=None)
def test_match_is_the_longest_suffix_that_the_text_holds(tokens, context):
    text = grown(tokens, 6)
    held = substrings(tokens, 40) | {()}
    length = next(
        n for n in range(len(context), -1, -1) if tuple(context[len(context) - n :]) in held
    )
    state, matched = text.match(context)
    assert matched == length
    assert state == state_of(text, tuple(context[len(context) - length :]))


@given(TEXTS, st.integers(2, 9), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_repeated_is_the_longest_suffix_that_occurs_before_the_end(tokens, depth, longest):
    longest = min(longest, depth - 1)
    length = next(
        n
        for n in range(min(longest, len(tokens)), -1, -1)
        if n == 0 or len(ends(tokens, tuple(tokens[-n:]))) > 1
    )
    state, matched = grown(tokens, depth).repeated(longest)
    assert matched == length
    if length:
        assert state == state_of(grown(tokens, depth), tuple(tokens[-length:]))
    else:
        assert state == ROOT


def test_a_break_is_counted_but_never_proposed():
    text = grown([1, 2, BREAK, 1, 3, BREAK, 1, 3, BREAK], 6)
    assert [(t, share) for t, _, share in text.followers(state_of(text, (1,)), 4)] == [
        (3, pytest.approx(2 / 3)),
        (2, pytest.approx(1 / 3)),
    ]
    assert text.followers(state_of(text, (2,)), 4) == []


def test_the_states_stay_within_twice_the_text():
    generator = random.Random(3)
    texts = ([1] * 500, [i % 7 for i in range(500)], [generator.randrange(2) for _ in range(500)])
    for tokens in texts:
        text = grown(tokens, 8)
        assert len(text.length) <= 2 * len(tokens)
        assert sum(len(following) for following in text.next) <= 3 * len(tokens)


@pytest.mark.parametrize("period", [1, 3, 500])
def test_a_token_costs_no_more_than_the_depth(period, monkeypatch):
    """Counting touches at most `depth` states twice, in texts where every suffix repeats."""
    touched = 0
    suffixes = SuffixAutomaton._suffixes

    def counted(self, state):
        nonlocal touched
        for each in suffixes(self, state):
            touched += 1
            yield each

    monkeypatch.setattr(SuffixAutomaton, "_suffixes", counted)
    text = SuffixAutomaton(depth=8)
    for i in range(3000):
        touched = 0
        text.append(i % period)
        assert touched <= 2 * 8
