"""A draft model's cache: it drafts what a fresh model would, and fills nothing twice.

No text can show a fault here, since the text is the target's whatever is drafted. So each pass of
the draft is checked itself: the path that each row reads, what it proposes, what it writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from paceline.errors import VocabularyError
from paceline.types import Speculation
from tests.engines import TARGET, engine, request, run
from tests.oracle import Letters, Oracle
from tests.watched_draft import DRAFTER, DraftOracle, Watched

OFF = Speculation(k=0)
GREEDY = {"temperature": 0.0}
COUPLED = {"temperature": 1.0, "seed": 5, "top_p": 0.95}
BLOCK = {"temperature": 1.0, "top_k": 4}


Watch = Callable[..., Watched]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Build a watched engine: the draft, the target, then settings of `tests.engines.engine`."""

    def make(draft: DraftOracle | None = None, target: Oracle = TARGET, **settings: int) -> Watched:
        draft = draft or DraftOracle()
        monkeypatch.setattr("paceline.drafters.model.load_model", lambda *_, **__: draft)
        return Watched(engine(DRAFTER, target=target, **settings), draft)

    return make


def perfect() -> DraftOracle:
    """A draft whose every token is accepted."""
    return DraftOracle(off=0.0)


@pytest.mark.parametrize("settings", [GREEDY, COUPLED, BLOCK], ids=["greedy", "coupled", "block"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_it_drafts_what_a_fresh_model_would(
    watch: Watch, settings: dict[str, float], k: int
) -> None:
    watched = watch()
    prompts = ["abc", "abcabcabcabcabcabc", "f", "deadbeef"]
    speculation = Speculation(k=k)
    watched.run(*(request(p, p, speculation, **settings) for p in prompts))
    watched.run(*(request(p, p, speculation, **settings) for p in prompts))
    assert all(len(watched.proposed[p]) > 1 for p in prompts)


def test_acceptance_in_part_leaves_one_token_to_run_and_in_full_two(watch: Watch) -> None:
    watched = watch()
    k, prompt = 3, "abcab"
    watched.run(request("r", prompt, Speculation(k=k), max_tokens=50, **GREEDY))
    lengths = [at for at, draft in watched.proposed["r"] if len(draft) == k]
    gains = [later - earlier for earlier, later in pairwise(lengths)]
    assert {1, 2, 4} <= set(gains)
    wanted = [lengths[0] + k - 1, *(k + (gain == k + 1) for gain in gains)]
    assert watched.rows[: len(wanted)] == wanted


def test_a_perfect_draft_runs_two_new_tokens_each_time(watch: Watch) -> None:
    watched = watch(perfect())
    rows = watched.run(request("r", "abcab", Speculation(k=4), max_tokens=31, **GREEDY))
    assert rows == [6 + 3, *[2 + 3] * 5]


def test_a_prefix_is_filled_once_for_all(watch: Watch) -> None:
    """Three blocks of four tokens are shared; the prompt's rest and the first token are not."""
    watched, long, two = watch(), "abcdefabcdefabc", Speculation(k=2)
    for prompt, filled in ((long, 0), (long, 12), (long + "ff", 12), (long[:9], 8)):
        rows = watched.run(request("r", prompt, two, **GREEDY))
        assert rows[0] == len(prompt) + 1 - filled + 1
        assert set(rows[1:]) <= {1, 2, 3}


def test_a_cold_prefix_that_two_requests_share_is_filled_once(watch: Watch) -> None:
    """Of 16 and 17 tokens twelve are shared, and the target's cache alone has them."""
    watched, long, two = watch(), "abcdefabcdefabc", Speculation(k=2)
    watched.run(request("warm", long, OFF, max_tokens=1, **GREEDY))
    watched.engine.add(request("first", long, two, **GREEDY))
    watched.engine.add(request("second", long + "f", two, **GREEDY))
    watched.step_until("second", 1)
    assert watched.rows == [12 + (16 - 12) + (17 - 12) + 2]
    watched.drain()


def test_a_prefix_that_another_request_is_using_is_not_filled_again(watch: Watch) -> None:
    watched, long = watch(), "abcdefabcdefabc"
    watched.engine.add(request("first", long, Speculation(k=2), **GREEDY))
    watched.step_until("first", 2)
    watched.rows.clear()
    watched.engine.add(request("second", long, Speculation(k=2), **GREEDY))
    watched.step_until("second", 1)
    assert watched.rows[-1] in {4 + 1 + 2, 4 + 1 + 3}
    watched.drain()


def test_a_hit_that_only_the_target_computed_is_filled(watch: Watch) -> None:
    watched, long, two = watch(), "abcdefabcdefabc", Speculation(k=2)
    assert watched.run(request("plain", long, OFF, **GREEDY)) == []
    assert watched.run(request("r", long, two, **GREEDY))[0] == 16 + 1
    assert watched.run(request("r", long, two, **GREEDY))[0] == 4 + 1


def test_a_hit_that_is_filled_in_part_is_filled_from_there_on(watch: Watch) -> None:
    watched, long, two = watch(), "abcdefabcdefabcdef", Speculation(k=2)
    watched.run(request("short", long[:9], two, max_tokens=3, **GREEDY))
    watched.run(request("plain", long, OFF, **GREEDY))
    assert watched.run(request("r", long, two, **GREEDY))[0] == 19 - 8 + 1


def test_a_hit_among_output_is_filled_already(watch: Watch) -> None:
    watched, prompt = watch(), "abcdef"
    (output,) = run(watched.engine, request("r", prompt, **GREEDY))
    text = prompt + TARGET.tokenizer.decode(output.token_ids)
    rows = watched.run(request("r", text + "a", Speculation(k=2), **GREEDY))
    assert rows[0] == len(text) + 2 - 24 + 1


@pytest.mark.parametrize("settings", [GREEDY, COUPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize(("blocks", "max_rows"), [(16, 32), (18, 7)])
def test_preemption_voids_what_was_cached(
    watch: Watch, settings: dict[str, float], blocks: int, max_rows: int
) -> None:
    watched = watch(blocks=blocks, max_rows=max_rows, max_num_requests=4)
    prompts = ["abcdefabcdefabcdefabcdef", "fedcba", "aaaaaaaaaaaaa", "b"]
    watched.run(*(request(p, p, max_tokens=30, **settings) for p in prompts))
    assert watched.preempted > 0


def test_blocks_that_changed_hands_count_as_empty(watch: Watch) -> None:
    """Sixteen blocks hold one context, so each request takes over the blocks of the last one."""
    watched, two = watch(blocks=16), Speculation(k=2)
    for prompt in ("abcdefabcdef", "fedcbafedcba", "abcdefabcdef"):
        rows = watched.run(request("r", prompt, two, max_tokens=52, **GREEDY))
        assert rows[0] == 13 + 1


def test_what_was_committed_while_nothing_was_drafted_is_filled_then(watch: Watch) -> None:
    watched = watch()
    watched.engine.add(request("r", "abc", Speculation(k=3), max_tokens=40, **GREEDY))
    watched.engine.add(request("other", "fed", Speculation(k=3), max_tokens=40, **GREEDY))
    sequence = watched.engine._sequences["r"]
    watched.step_until("r", 2)
    sequence.k = 0
    at = len(sequence.tokens)
    while len(sequence.tokens) < at + 9:
        watched.engine.step()
    sequence.k = 3
    watched.engine.abort("other")
    watched.rows.clear()
    watched.step_until("r", 3)
    assert watched.rows[-1] in {9 + 3, 10 + 3}
    watched.drain()


def test_an_aborted_request_leaves_nothing_but_its_full_blocks(watch: Watch) -> None:
    """Its id may come again, with other tokens; its prefix may too, under another id."""
    watched, two = watch(), Speculation(k=2)
    watched.engine.add(request("stays", "deadbeef", two, **GREEDY))
    watched.engine.add(request("goes", "abcdefabcdefabc", two, **GREEDY))
    watched.step_until("goes", 2)
    watched.engine.abort("goes")
    assert set(watched.live._cache.requests) == {"stays"}
    watched.engine.add(request("goes", "fedcbafedcba", two, **GREEDY))
    watched.drain()
    assert watched.live._cache.requests == {}
    assert watched.run(request("late", "abcdefabcdefabc", two, **GREEDY))[0] == 4 + 1


def test_a_draft_of_a_shorter_context_stops_at_its_end_for_that_request_only(watch: Watch) -> None:
    watched = watch(DraftOracle(max_model_len=20), max_rows=64)
    prompts = {"short": "abc", "long": "abcdefabcdefabcdefabcdef", "crossing": "fedcbafedcbafed"}
    watched.run(
        *(request(n, p, Speculation(k=3), max_tokens=12, **GREEDY) for n, p in prompts.items())
    )
    assert all(len(draft) == 0 for _, draft in watched.proposed["long"])
    assert all(len(draft) > 0 for _, draft in watched.proposed["short"][:3])
    assert {len(draft) for _, draft in watched.proposed["crossing"]} >= {0, 3}


@dataclass
class Padded(Oracle):
    """A target of six rows of which two are padding: no text leads to them."""

    def logits(self, tokens: Sequence[int]) -> Tensor:
        return torch.cat([super().logits(tokens)[:4], torch.full((2,), -torch.inf)])


PADDED = Padded(tokenizer=Letters(4))


@pytest.mark.parametrize("settings", [GREEDY, COUPLED, BLOCK], ids=["greedy", "coupled", "block"])
@pytest.mark.parametrize("size", [4, 5, 9])
def test_vocabularies_may_differ_by_their_padding(
    watch: Watch, settings: dict[str, float], size: int
) -> None:
    draft = DraftOracle(vocab_size=size, tokenizer=Letters(4))
    watched = watch(draft, PADDED)
    watched.run(*(request(p, p, max_tokens=40, **settings) for p in ("abc", "dcbadcba")))
    assert {len(draft) for _, draft in watched.proposed["abc"]} >= {4}
    assert all(max(d.tree.tokens, default=0) < 6 for _, d in watched.proposed["abc"])


def test_an_id_that_the_draft_does_not_have_ends_drafting_for_that_request_only(
    watch: Watch,
) -> None:
    watched = watch(DraftOracle(vocab_size=4, tokenizer=Letters(4)), PADDED)
    for settings in (GREEDY, COUPLED):
        watched.proposed.clear()
        first, second = run(
            watched.engine, request("odd", "abf", **settings), request("even", "abc", **settings)
        )
        assert (len(first.token_ids), first.counts.proposed) == (20, 0)
        assert len(second.token_ids) == 20
        assert second.counts.proposed > 0


def test_another_vocabulary_is_refused(watch: Watch) -> None:
    with pytest.raises(VocabularyError, match="id 5 is 'f' to the target and unnamed to the draft"):
        watch(DraftOracle(tokenizer=Letters(5)))
    with pytest.raises(VocabularyError, match="The draft has 5 rows, too few for id 5"):
        watch(DraftOracle(vocab_size=5))


@pytest.mark.parametrize("max_rows", [3, 5, 8])
def test_it_is_filled_in_passes_of_the_engines_size(watch: Watch, max_rows: int) -> None:
    watched = watch(max_rows=max_rows)
    prompts = ["abcdefabcdefabcdefabcdef", "fedcbafedcbafedcb", "deadbeef"]
    for p in prompts[:2]:
        watched.run(request(p, p, OFF, max_tokens=1, **GREEDY))
    watched.run(*(request(p, p, **GREEDY) for p in prompts))
    assert all(any(len(draft) for _, draft in watched.proposed[p]) for p in prompts)


@pytest.fixture(params=range(6))
def chance(request: pytest.FixtureRequest) -> Iterator[random.Random]:
    return random.Random(request.param)


def test_in_any_company(watch: Watch, chance: random.Random) -> None:
    """Shared prefixes, aborts, spells without drafts, preemption and small passes, all at once."""
    watched = watch(
        DraftOracle(off=chance.choice([0.0, 0.7]), max_model_len=chance.choice([25, 64])),
        blocks=chance.choice([16, 20, 64]),
        max_rows=chance.choice([4, 9, 32]),
        max_num_requests=4,
    )
    engine, alive = watched.engine, set[str]()
    stems = ["abcdefabcdef", "abcdefabcaaa", "fed"]
    for count in range(80):
        if chance.random() < 0.2:
            prompt = chance.choice(stems) + "".join(
                chance.choices("abcdef", k=chance.randint(0, 9))
            )
            settings = chance.choice([GREEDY, COUPLED])
            engine.add(request(str(count), prompt, Speculation(k=chance.randint(0, 5)), **settings))
            alive.add(str(count))
        for name in sorted(alive):
            if chance.random() < 0.1:
                engine._sequences[name].k = chance.choice([0, 0, 1, 3, 6])
            if chance.random() < 0.01:
                engine.abort(name)
                alive.remove(name)
        for delta in engine.step() if engine.has_work else ():
            if delta.finish_reason:
                alive.remove(delta.request_id)
                engine.take(delta.request_id)
    watched.drain()
    assert sum(len(draft) for seen in watched.proposed.values() for _, draft in seen) > 30
    assert watched.live._cache.requests == {}
