"""Suffix decoding: hand-made texts, trees against brute force, history, work, memory."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.drafters import drafters
from paceline.drafters.automaton import WIDTH, SuffixAutomaton
from paceline.drafters.suffix import History, LiveSuffix, Suffix, grow
from paceline.errors import ConfigError
from paceline.registry import OptionString
from paceline.tree import NO_DRAFT, Draft, PointMass, TokenTree


def propose(context, tokens, budget=4, live=None, **options) -> Draft:
    live = live or LiveSuffix(Suffix(**options))
    return live.propose([context(tokens)], [budget])[0]


def grown(tokens: list[int], depth: int) -> SuffixAutomaton:
    text = SuffixAutomaton(depth)
    for token in tokens:
        text.append(token)
    return text


def test_it_proposes_what_followed(context):
    draft = propose(context, [1, 2, 3, 4, 5, 9, 1, 2, 3], budget=3)
    assert draft == Draft.chain(PointMass(t) for t in (4, 5, 9))


def test_the_longest_suffix_wins(context):
    """2 was followed by 8 twice, but 1 2 by 7."""
    draft = propose(context, [1, 2, 7, 5, 2, 8, 6, 2, 8, 1, 2], budget=1)
    assert draft.tree.tokens == (7,)


def test_frequencies_rank_the_branches(context):
    """After 1: 2 three times, 3 twice, 4 once; the tree of five nodes takes the likeliest paths.

    With a match of m = 1 the estimates are 1/2 of 3/6, 2/6, 1/6 at depth 1 and 1/3 of them below,
    where each path goes on for certain (2 5, 3 6): .25, .167, .167, .111, .083.
    """
    tokens = [1, 2, 5, 1, 3, 6, 1, 2, 5, 1, 4, 1, 3, 6, 1, 2, 5, 9, 1]
    draft = propose(context, tokens, budget=5, depth=6, min_prob=0)
    assert draft.tree.tokens == (2, 3, 5, 6, 4)
    assert draft.tree.parents == (0, 0, 1, 2, 0)
    assert draft.trials[0] == (PointMass(2), PointMass(3), PointMass(4))


def test_equal_frequencies_are_ranked_by_the_latest(context):
    assert propose(context, [1, 5, 1, 6, 1], budget=1).tree.tokens == (6,)


def test_without_trees_it_proposes_the_likeliest_chain(context):
    tokens = [1, 2, 5, 9, 1, 3, 6, 9, 1, 2, 5, 8, 1]
    draft = propose(context, tokens, budget=4, tree=False, min_prob=0)
    assert draft == Draft.chain(PointMass(t) for t in (2, 5, 8, 1))


def test_a_period_is_drafted_past_the_end_of_the_text(context):
    draft = propose(context, [9, 1, 2, 3, 1, 2, 3], budget=8, min_prob=0)
    assert draft == Draft.chain(PointMass(t) for t in (1, 2, 3, 1, 2, 3, 1, 2))


def test_min_prob_bounds_the_depth_by_the_match(context):
    """A match of m goes on for j tokens while m / (m + j) >= min_prob."""
    text = list(range(100, 140))
    for matched, budget, nodes in ((1, 16, 3), (2, 16, 6), (4, 16, 12), (4, 5, 5)):
        tokens = [*text, 7, *text[:matched]]
        assert len(propose(context, tokens, budget=budget, min_prob=0.25, depth=64)) == nodes


def test_rare_branches_are_left_out(context):
    """After 1: 2 four times, 3 once; at m = 1 the 3 is estimated at .1, the 2 at .4."""
    tokens = [1, 2, 1, 2, 1, 3, 1, 2, 1, 2, 8, 1]
    assert propose(context, tokens, budget=2, min_prob=0.3).tree.tokens == (2,)


def test_nothing_matches(context):
    assert propose(context, [1, 2, 3, 4]) is NO_DRAFT
    assert propose(context, [1]) is NO_DRAFT
    assert propose(context, [1, 2, 1], budget=0) is NO_DRAFT


def test_outputs_of_finished_requests_are_remembered_and_prompts_are_not(context, finish):
    live = LiveSuffix(Suffix())
    past = context([50, 51, 52, 1, 2, 3, 4], prompt_tokens=3)
    live.propose([past], [1])
    assert propose(context, [9, 1, 2], budget=2, live=LiveSuffix(Suffix())) is NO_DRAFT
    live.observe([finish(past)])
    live.release("a")
    assert propose(context, [9, 1, 2], budget=2, live=live).tree.tokens == (3, 4)
    live.release("a")
    assert propose(context, [9, 50, 51], budget=2, live=live) is NO_DRAFT


def test_a_pass_that_does_not_finish_a_request_teaches_nothing(context, finish):
    live = LiveSuffix(Suffix())
    seen = finish(context([1, 2, 3, 4]))
    object.__setattr__(seen, "finished", False)
    live.observe([seen])
    assert propose(context, [9, 2, 3], live=live) is NO_DRAFT


def test_no_draft_crosses_from_one_output_to_the_next(context, finish):
    live = LiveSuffix(Suffix())
    live.observe([finish(context([0, 1, 2])), finish(context([0, 7, 8]))])
    assert propose(context, [9, 1, 2], live=live) is NO_DRAFT


def test_the_better_of_text_and_history_is_taken(context, finish):
    """The text has seen 2 followed by 7; the history has seen 1 2, which is more, by 3."""
    live = LiveSuffix(Suffix())
    live.observe([finish(context([0, 1, 2, 3, 4, 5]))])
    assert propose(context, [2, 7, 6, 1, 2], budget=3, live=live).tree.tokens == (3, 4, 5)
    live.release("a")
    assert propose(context, [1, 2, 7, 6, 1, 2], budget=2, live=live).tree.tokens == (7, 6)


def test_what_an_owner_wrote_is_drafted_to_that_owner_alone(context, finish):
    live = Suffix().build(host=None)
    live.observe([finish(context([1, 2, 3, 4, 5], request_id="past", owner="ann"))])
    asked = {owner: context([9, 2, 3], request_id=owner, owner=owner) for owner in ("ann", "bob")}
    drafts = live.propose(list(asked.values()), [2, 2])
    assert [draft.tree.tokens for draft in drafts] == [(4, 5), ()]


def test_the_owner_asked_about_longest_ago_is_forgotten(context, finish, monkeypatch):
    monkeypatch.setattr("paceline.drafters.suffix.OWNERS", 2)
    live = Suffix().build(None)

    def finished(owner: str) -> None:
        live.observe([finish(context([1, 2, 3, 4, 5], request_id=f"past {owner}", owner=owner))])

    def drafts_of(owner: str) -> int:
        asked = context([9, 2, 3], request_id=f"{owner} asks", owner=owner)
        (draft,) = live.propose([asked], [2])
        live.release(asked.request_id)
        return len(draft)

    finished("ann")
    finished("bob")
    assert drafts_of("ann") == 2
    finished("cyd")  # bob's turn to be forgotten: ann has just been here
    assert [drafts_of(owner) for owner in ("ann", "cyd", "bob")] == [2, 2, 0]


def held(history: History) -> int:
    return sum(len(text) for text in history.texts)


def test_the_history_forgets_its_older_half():
    history = History(depth=4, max_tokens=20)
    for first in range(100, 160, 4):
        history.add(range(first, first + 4))
        assert held(history) <= 20
        assert history.texts[0].match([first, first + 1])[1] == 2
    assert all(text.match([100, 101])[1] == 0 for text in history.texts)
    assert any(text.match([152, 153])[1] == 2 for text in history.texts)


def test_of_an_output_longer_than_half_the_history_the_end_is_kept():
    history = History(depth=4, max_tokens=20)
    history.add(range(100, 150))
    assert len(history.texts[0]) == 10
    assert history.texts[0].match([148, 149])[1] == 2
    assert history.texts[0].match([140])[1] == 0


def test_no_history_is_kept_where_none_is_wanted(context, finish):
    live = LiveSuffix(Suffix(history_tokens=0))
    live.observe([finish(context([0, 1, 2, 3]))])
    assert propose(context, [9, 1, 2], live=live) is NO_DRAFT


def test_a_request_that_was_put_off_proposes_the_same_again(context):
    live, tokens = LiveSuffix(Suffix()), [1, 2, 3, 1]
    first = propose(context, tokens, live=live)
    assert first.tree.tokens[0] == 2
    assert propose(context, tokens, live=live) == first


def test_requests_do_not_see_each_other(context):
    live = LiveSuffix(Suffix())
    drafts = live.propose(
        [context([1, 2, 1], request_id="a"), context([1, 3, 1], request_id="b")], [1, 1]
    )
    assert [draft.tree.tokens for draft in drafts] == [(2,), (3,)]


def best_first(tokens: list[int], longest: int, min_prob: float, levels: int) -> dict:
    """Every path below the longest repeated suffix, by brute force: path -> estimate."""
    spans = range(min(longest, len(tokens)), 0, -1)
    matched = next((n for n in spans if len(places(tokens, tokens[-n:])) > 1), 0)
    paths: dict[tuple[int, ...], float] = {}

    def extend(path: tuple[int, ...], frequency: float) -> None:
        context = [*tokens[len(tokens) - matched :], *path]
        while not (followed := [e for e in places(tokens, context) if e < len(tokens)]):
            context = context[1:]
        after = [tokens[e] for e in followed]
        latest = {tokens[e]: e for e in followed}
        for token in sorted(latest, key=lambda t: (-after.count(t), -latest[t]))[:WIDTH]:
            share = frequency * after.count(token) / len(after)
            estimate = share * matched / (matched + len(path) + 1)
            if estimate >= min_prob:
                paths[(*path, token)] = estimate
                if len(path) + 1 < levels:
                    extend((*path, token), share)

    if matched:
        extend((), 1.0)
    return paths


def places(tokens: list[int], part: list[int]) -> list[int]:
    n = len(part)
    return [end for end in range(n, len(tokens) + 1) if tokens[end - n : end] == part]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.integers(1, 6),
    st.sampled_from([0.02, 0.1, 0.3]),
)
@settings(max_examples=150, deadline=None)
def test_the_tree_holds_the_likeliest_paths(tokens, budget, min_prob):
    """At a depth that no context reaches, so that every count is exact."""
    text = grown(tokens, 40)
    growth = grow(text, *text.repeated(8), budget, min_prob, WIDTH)
    tree: TokenTree = growth.build().tree
    paths = best_first(tokens, 8, min_prob, budget)
    taken = [tree.path_tokens(row) for row in range(1, len(tree) + 1)]
    best = sorted(paths.values(), reverse=True)[:budget]
    assert [paths[path] for path in taken] == pytest.approx(best)
    assert growth.expected == pytest.approx(sum(best))


def test_a_step_reads_its_new_tokens_and_one_context_and_no_more(context, watched):
    tokens = watched(i * i % 997 for i in range(20_000))
    live = LiveSuffix(Suffix(depth=16))
    live.propose([context(tokens)], [4])
    for step in range(10):
        tokens.extend([step, step + 1, step + 2])
        tokens.reads = 0
        live.propose([context(tokens)], [4])
        assert tokens.reads <= 3 + 15


def test_memory_is_flat_over_many_requests(context, finish):
    live = LiveSuffix(Suffix(history_tokens=200))

    def serve(requests: range) -> int:
        for i in requests:
            ctx = context(list(range(i, i + 40)), request_id=str(i))
            live.propose([ctx], [4])
            live.observe([finish(ctx)])
            live.release(str(i))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    peaks = [serve(range(10 * i, 10 * i + 10)) for i in range(6)]
    tracemalloc.stop()
    assert max(peaks[3:]) < 1.2 * max(peaks[:3])


def test_options():
    kind = drafters["suffix"]
    text = "suffix:k=5:depth=16:min_prob=0.2:history_tokens=100:tree=false"
    built = OptionString.parse(text).build(kind, "drafter")
    assert built == Suffix(k=5, depth=16, min_prob=0.2, history_tokens=100, tree=False)
    assert (Suffix().needs.trees, built.needs.trees) == (True, False)


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"depth": 1}, {"min_prob": 1.5}, {"min_prob": -0.1}, {"history_tokens": -1}]
)
def test_wrong_options_are_refused(wrong):
    name = next(iter(wrong))
    with pytest.raises(ConfigError, match=f"'suffix' wants {name}"):
        Suffix(**wrong)
