"""Option strings that join drafters, and what merged drafts and cascades propose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.chooser import Draw, Keyed, Purpose
from paceline.drafters import parse_drafter
from paceline.drafters.cascade import Cascade
from paceline.drafters.joint import Joined, Source, of_source
from paceline.drafters.merged import Merged, graft
from paceline.drafters.model import DraftModel
from paceline.drafters.ngram import Ngram
from paceline.drafters.parse import parts, split
from paceline.drafters.suffix import Suffix
from paceline.engine import LLM
from paceline.errors import ConfigError
from paceline.tree import Draft, DraftBuilder, PointMass, Sampled
from paceline.types import SamplingParams
from tests.conftest import PROMPTS


@dataclass
class Fixed:
    """Proposes what it was given, as much of it as the budget holds."""

    trials: Sequence[Any]
    k: int = 8
    asked: list[tuple[int, int]] = field(default_factory=list)

    def propose(self, contexts: Sequence[Any], budgets: Sequence[int]) -> list[Draft]:
        self.asked += [(ctx.number, k) for ctx, k in zip(contexts, budgets, strict=True)]
        laws = [[0.5, 0.5]] * len(self.trials)
        return [Draft.chain(self.trials[:k], laws) for k in budgets]


def context(number: int = 0) -> Any:
    """What a joint itself reads of a context: the chooser."""

    @dataclass
    class Ctx:
        number: int
        chooser: Keyed = field(default_factory=lambda: Keyed(1))

    return Ctx(number)


def points(*tokens: int) -> list[PointMass]:
    return [PointMass(token) for token in tokens]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("suffix+ngram", ["suffix", "ngram"]),
        ("suffix:k=3+model:a+b.gguf:k=2", ["suffix:k=3", "model:a+b.gguf:k=2"]),
        ("model:C:/m/c++x+ngram", ["model:C:/m/c++x", "ngram"]),
        ("./my+ngrams.py:k=6", ["./my+ngrams.py:k=6"]),
        ("cascade:least=3+ngram+suffix", ["cascade:least=3", "ngram", "suffix"]),
    ],
)
def test_a_plus_splits_only_before_a_registered_name(text: str, parts: list[str]) -> None:
    assert split(text) == parts


def test_a_joined_string_merges_unless_its_first_part_says_otherwise() -> None:
    sources = (Suffix(k=3), DraftModel("m"))
    assert parse_drafter("suffix:k=3+model:m") == Joined(Merged(), sources)
    assert parse_drafter("merged:k=5+suffix:k=3+model:m") == Joined(Merged(k=5), sources)
    cascade = parse_drafter("cascade:4:least=1+ngram+suffix")
    assert cascade == Joined(Cascade(k=4, least=1), (Ngram(), Suffix()))
    assert (cascade.k, cascade.needs.trees, cascade.needs.sequential) == (4, True, False)
    assert parse_drafter("cascade+suffix+model:m").needs.sequential


def test_the_parts_of_what_is_joined() -> None:
    assert parts(parse_drafter("cascade+ngram+model:m")) == (Ngram(), DraftModel("m"))
    assert parts(Ngram()) == (Ngram(),)


@pytest.mark.parametrize("text", ["merged", "cascade:k=3", "ngram+merged+suffix"])
def test_what_joins_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="joins no drafters"):
        parse_drafter(text)


def test_equal_tokens_share_a_row_and_each_is_a_trial() -> None:
    builder = DraftBuilder()
    assert graft(builder, Draft.chain(points(4, 5))) == 2
    drawn = Draft.chain([Sampled(4, 0), Sampled(6, 1)], [[1.0] * 7] * 2)
    assert graft(builder, drawn) == 1
    draft = builder.build()
    assert draft.tree.tokens == (4, 5, 6)
    assert draft.tree.parents == (0, 1, 1)
    assert draft.trials[0] == (PointMass(4), Sampled(4, 0))
    assert draft.trials[1] == (PointMass(5), Sampled(6, 1))


def test_a_source_gets_what_the_one_before_left_unless_that_one_sampled() -> None:
    for trials, rest in ((points(1), 7), ([Sampled(1, 0)], 4), (points(), 8)):
        second = Fixed(points(2, 3))
        (draft,) = Merged().propose([Fixed(trials), second], [context()], [8])
        assert second.asked == [(0, rest)]
        assert len(draft) == len(trials) + 2


def test_a_source_drafts_no_more_than_its_own_k() -> None:
    """What a merged one may not use, the next may; a cascade's sources are cut as well."""
    second = Fixed(points(2, 3))
    Merged().propose([Fixed([Sampled(1, 0)], k=2), second], [context()], [8])
    assert second.asked == [(0, 6)]
    live = Fixed(points(7, 8, 9))
    source = Source(live, 2)  # type: ignore[arg-type]
    (draft,) = Cascade().propose([source], [context()], [4])
    assert live.asked == [(0, 2)]
    assert draft.tree.tokens == (7, 8)


def test_a_cascade_asks_the_stronger_where_the_cheap_one_has_too_little() -> None:
    strong = Fixed(points(7, 8, 9))
    contexts = [context(0), context(1), context(2)]

    class Cheap(Fixed):
        def propose(self, contexts: Sequence[Any], budgets: Sequence[int]) -> list[Draft]:
            drawn = Draft.chain([Sampled(0, 0)], [[1.0]])
            return [Draft.chain(points(1, 2)), Draft.chain(points(1)), drawn]

    drafts = Cascade().propose([Cheap([]), strong], contexts, [4, 3, 4])
    assert strong.asked == [(1, 3)]
    assert [draft.tree.tokens for draft in drafts] == [(1, 2), (7, 8, 9), (0,)]


def test_no_two_sources_share_a_draw_and_all_share_the_race() -> None:
    address = Draw(3, 0, 0, Purpose.DRAFT)
    law = [1 / 97] * 97
    choosers = [of_source(context(), n).chooser for n in range(4)]
    assert len({chooser.categorical(law, address) for chooser in choosers}) == 4
    assert len({chooser.race(law, 3) for chooser in choosers}) == 1


def test_a_draft_model_keeps_what_it_fed_of_a_path_that_another_proposed(mini: LLM) -> None:
    """What is accepted is compared with what was fed, not merely counted."""
    live = mini.engine._drafters["model:mini-draft"].live
    stream = mini.stream(PROMPTS[0], SamplingParams(temperature=0, max_tokens=30))
    next(stream)
    next(stream)
    (state,) = live._cache.requests.values()  # type: ignore[attr-defined]
    before, state.fed = state.tokens, [10, 11, 12]
    request = next(iter(live._cache.requests))  # type: ignore[attr-defined]
    table = SimpleNamespace(blocks=())
    seen = SimpleNamespace(
        context=SimpleNamespace(request_id=request, table=table), path=(1, 2), committed=(10, 9, 8)
    )
    live.observe([seen])  # type: ignore[list-item]
    assert (state.tokens, state.fed) == (before + 1, ())
    stream.close()


@pytest.mark.parametrize("text", ["suffix+ngram", "model:mini-draft+model:mini-draft:head_ids=99"])
def test_joined_drafters_draft_more_than_none(text: str, mini: LLM) -> None:
    llm = LLM("mini", draft=text)
    params = SamplingParams(temperature=0, max_tokens=40)
    outputs, plain = llm.generate(PROMPTS, params), mini.generate(PROMPTS, params)
    assert [o.token_ids for o in outputs] == [o.token_ids for o in plain]
    assert sum(o.counts.accepted for o in outputs) > 20
