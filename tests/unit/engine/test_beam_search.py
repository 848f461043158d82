"""Beam search: with drafts the beams and scores are those of plain beam search, to the bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.engine import Engine
from paceline.errors import CacheError, ModelError, RequestError
from paceline.runtime import next_logits
from paceline.types import BeamSearchOutput, BeamSearchParams, Speculation
from tests.engines import engine, request
from tests.habits import DRAFTERS, HABIT, Habitual, habits
from tests.syllables import DRAFTER as INTERSECT
from tests.syllables import syllable_engine

CHAINS = [name for name in DRAFTERS if name != "prediction"]
PROMPTS = ("abc", "abcabcabcabc", "cab")


class Even(Habitual):
    """Logits of 0 and 1, so that many continuations are exactly as likely."""

    def logits(self, tokens: Sequence[int]) -> Tensor:
        return (super().logits(tokens[-2:]) > 0).float()


EVEN = Even(mood=0.0)


def plain(
    target: Habitual, prompt: str, params: BeamSearchParams
) -> list[tuple[tuple[int, ...], float, float]]:
    """Beam search as it is written down, over whole texts: (ids, log-probability, score)."""
    start = tuple(target.tokenizer.encode(prompt))
    beams, ended = [(start, 0.0)], []
    ends = () if params.ignore_eos else target.eos_ids
    for _ in range(min(params.max_tokens, target.max_model_len - len(start))):
        grown = []
        for tokens, total in beams:
            logits = target.logits(tokens).double()
            row = torch.log_softmax((logits - logits.max()) / params.temperature, -1)
            order = sorted(range(len(row)), key=lambda i: (-float(row[i]), i))
            for token in order[: 2 * params.beam_width]:
                longer = ((*tokens, token), total + float(row[token]))
                (ended if token in ends else grown).append(longer)
        beams = sorted(grown, key=lambda beam: -beam[1])[: params.beam_width]
    outputs = [
        (tokens[len(start) :], total, total / (len(tokens) - stopped) ** params.length_penalty)
        for group, stopped in ((ended, 1), (beams, 0))
        for tokens, total in group
    ]
    return sorted(outputs, key=lambda output: -output[2])[: params.beam_width]


def found(output: BeamSearchOutput) -> list[tuple[tuple[int, ...], float, float]]:
    return [(beam.token_ids, beam.logprob, beam.score) for beam in output.beams]


def search(
    engine: Engine, prompt: str, params: BeamSearchParams, drafter: str, k: int | None = None
) -> BeamSearchOutput:
    ids = tuple(HABIT.tokenizer.encode(prompt))
    return engine.beam_search(ids, params, Speculation(drafter=drafter, k=k))


@pytest.fixture(scope="module")
def every() -> Engine:
    return habits()


@pytest.fixture(scope="module")
def even() -> Engine:
    return habits(target=EVEN)


@pytest.mark.parametrize("drafter", ["none", *CHAINS])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_beams_and_scores(every: Engine, drafter: str, width: int) -> None:
    for prompt in PROMPTS:
        params = BeamSearchParams(beam_width=width, max_tokens=9)
        output = search(every, prompt, params, drafter)
        assert found(output) == plain(HABIT, prompt, params)
        assert output.passes <= output.steps
    every.pool.check_idle()


@pytest.mark.parametrize("drafter", CHAINS)
def test_among_equals(even: Engine, drafter: str) -> None:
    for params in (
        BeamSearchParams(beam_width=6, max_tokens=7, length_penalty=0.0),
        BeamSearchParams(beam_width=4, max_tokens=6, ignore_eos=True),
    ):
        wanted = plain(EVEN, "abc", params)
        assert len({logprob for _, logprob, _ in wanted}) < len(wanted)
        assert found(search(even, "abc", params, drafter)) == wanted


@pytest.mark.parametrize(
    "settings",
    [
        {"length_penalty": 0.0},
        {"length_penalty": 3.0},
        {"length_penalty": -1.0},
        {"ignore_eos": True},
        {"temperature": 0.3},
        {"temperature": 2.5},
        {"temperature": 1e-38},
        {"temperature": 1e300},
        {"max_tokens": 1},
        {"max_tokens": 100, "beam_width": 2},
    ],
    ids=str,
)
def test_settings(every: Engine, settings: dict[str, float]) -> None:
    params = BeamSearchParams(**{"beam_width": 3, "max_tokens": 8, **settings})
    wanted = plain(HABIT, "abcab", params)
    assert found(search(every, "abcab", params, "model:like")) == wanted


def test_a_good_draft_saves_passes(every: Engine) -> None:
    """Two steps a pass and more where the draft's siblings hold what the beams go on with."""
    like = habits("model:like", target=Habitual(mood=0.0, eos_ids=frozenset()))
    for width, least in ((1, 2.5), (2, 1.4), (4, 1.2)):
        params = BeamSearchParams(beam_width=width, max_tokens=24)
        output = search(like, "abc", params, "model:like", k=4)
        assert output.steps / output.passes > least
        alone = search(like, "abc", params, "none")
        assert (alone.passes, alone.proposed) == (24, 0)
        assert found(alone) == found(output)


def test_a_draft_of_another_vocabulary() -> None:
    params = BeamSearchParams(beam_width=2, max_tokens=8)
    output = search(syllable_engine(HABIT), "abc", params, INTERSECT)
    assert found(output) == plain(HABIT, "abc", params)
    assert output.proposed > 0


def test_beams_wider_than_their_rows_draft_nothing(every: Engine) -> None:
    params = BeamSearchParams(beam_width=20, max_tokens=4)
    output = search(every, "abc", params, "model:like")
    assert found(output) == plain(HABIT, "abc", params)
    with pytest.raises(RequestError, match="beam_width 33 exceeds max_rows 32"):
        search(every, "abc", BeamSearchParams(beam_width=33), "none")


def test_long_prompts_are_read_in_chunks(every: Engine) -> None:
    prompt, params = "abcdef" * 9, BeamSearchParams(beam_width=2, max_tokens=6)
    assert found(search(every, prompt, params, "ngram:k=4")) == plain(HABIT, prompt, params)


def test_a_cache_too_small_is_told_and_left_idle() -> None:
    tight = engine("ngram", target=HABIT, blocks=16)
    with pytest.raises(CacheError, match="blocks are wanted"):
        search(tight, "abc", BeamSearchParams(beam_width=8, max_tokens=50, ignore_eos=True), "none")
    tight.pool.check_idle()


def test_it_leaves_running_requests_as_they_are(every: Engine) -> None:
    every.add(request("r", "abc", max_tokens=8, temperature=0.0))
    every.step()
    params = BeamSearchParams(beam_width=2, max_tokens=5)
    assert found(search(every, "abc", params, "model:like")) == plain(HABIT, "abc", params)
    while every.has_work:
        every.step()
    assert len(every.take("r").token_ids) == 8


def test_the_coldest_search_is_greedy(every: Engine) -> None:
    params = BeamSearchParams(beam_width=2, max_tokens=5, temperature=5e-324, ignore_eos=True)
    ids = HABIT.tokenizer.encode("abc")
    for _ in range(5):
        ids.append(int(HABIT.logits(ids).argmax()))
    for drafter in ("none", "model:like"):
        assert found(search(every, "abc", params, drafter)) == [(tuple(ids[3:]), 0.0, 0.0)]


class Lost(Habitual):
    """Without a law from a length on, as a damaged model is."""

    def __init__(self, length: int, value: float) -> None:
        super().__init__(mood=0.0, eos_ids=frozenset())
        self.length, self.value = length, value

    def logits(self, tokens: Sequence[int]) -> Tensor:
        own = super().logits(tokens)
        return own if len(tokens) < self.length else torch.full_like(own, self.value)


@pytest.mark.parametrize("drafter", ["none", "model:like", "suffix"])
@pytest.mark.parametrize(
    ("value", "holds"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "nothing but -inf")]
)
def test_a_row_without_a_law_is_told_where_a_beam_gets_there(
    drafter: str, value: float, holds: str
) -> None:
    target = Lost(6, value)
    engine = habits(target=target)
    near = BeamSearchParams(beam_width=2, max_tokens=3)
    assert found(search(engine, "abc", near, drafter, k=4)) == plain(target, "abc", near)
    with pytest.raises(ModelError, match=f"Row 0 of the logits holds {holds}, so it has no"):
        search(engine, "abc", BeamSearchParams(beam_width=2, max_tokens=4), drafter, k=4)
    engine.pool.check_idle()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"rule": "nonsense"}, "rule 'nonsense'"),
        ({"rule": "block"}, "rule 'block'"),
        ({"prediction": (10**9,)}, "prediction"),
        ({"prediction": "abc"}, "prediction"),
    ],
    ids=str,
)
def test_what_a_search_has_no_use_for_is_refused(
    every: Engine, asked: dict[str, Any], named: str
) -> None:
    with pytest.raises(RequestError, match=f"Beam search goes by scores .*; leave the {named} out"):
        every.beam_search((0,), BeamSearchParams(), Speculation(**asked))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"beam_width": 0}, "beam_width must be finite and > 0"),
        ({"temperature": 0}, "temperature must be finite and > 0"),
        ({"max_tokens": 0}, "max_tokens must be finite and > 0"),
        ({"length_penalty": math.nan}, "length_penalty must be in -10 .. 10, not nan"),
        ({"length_penalty": 1e6}, "length_penalty must be in -10 .. 10, not 1000000"),
        ({"beam_width": 2.5}, "beam_width must be an integer"),
    ],
)
def test_wrong_settings(setting: dict[str, float], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        BeamSearchParams(**setting)


@pytest.mark.parametrize("width", [1, 3])
def test_on_the_embedded_model(mini, width: int) -> None:
    """Native kernels: the scores have plain beam search's bits, and the best beam its text."""
    prompt, params = "def add(a, b):\n", BeamSearchParams(beam_width=width, max_tokens=10)
    alone = mini.beam_search(prompt, params, speculation=Speculation(k=0))
    for drafter in ("model:mini-draft", "ngram", "suffix"):
        output = mini.beam_search(prompt, params, speculation=Speculation(drafter=drafter))
        assert output.beams == alone.beams
    tokens, total = mini.encode(prompt), 0.0
    for token in alone.beams[0].token_ids:
        total += float(torch.log_softmax(next_logits(mini.model, tokens).double(), -1)[token])
        tokens.append(token)
    assert alone.beams[0].logprob == total
    assert alone.beams[0].text == mini.tokenizer.decode(alone.beams[0].token_ids)
    mini.engine.pool.check_idle()
