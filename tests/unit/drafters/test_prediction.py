"""Predicted outputs: the guess is followed, left, and found again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from paceline.drafters import DraftContext
from paceline.drafters.prediction import LivePrediction, Prediction
from paceline.engine import LLM
from paceline.errors import ConfigError, RequestError
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS

GUESS = tuple(range(100, 140))


def proposals(
    context: Callable[..., DraftContext], outputs: list[list[int]], guess: tuple[int, ...] = GUESS
) -> list[tuple[int, ...]]:
    """What is proposed after each of the outputs, which are appended in turn."""
    tokens, live, found = [7, 100, 101], LivePrediction(4, 32), []
    ctx = replace(context(tokens, 3), prediction=guess)
    for output in outputs:
        tokens += output
        found.append(live.propose([ctx], [3])[0].tree.tokens)
    return found


FOLLOWED: dict[str, tuple[list[list[int]], list[tuple[int, ...]]]] = {
    "from the start": ([[]], [(100, 101, 102)]),
    "accepted in part": (
        [[], [100, 101], [102]],
        [(100, 101, 102), (102, 103, 104), (103, 104, 105)],
    ),
    "to its end": ([list(GUESS[:38]), [138, 139]], [(138, 139), ()]),
    "a token is replaced": ([[100, 101, 1], [103], [104]], [(), (104, 105, 106), (105, 106, 107)]),
    "tokens are left out": ([[100, 110], [111]], [(111, 112, 113), (112, 113, 114)]),
    "tokens are put in": ([[100, 1, 2, 3], [101]], [(), (102, 103, 104)]),
    "one token far away tells nothing": ([[100, 139]], [()]),
    "two tokens far away do": ([[100, 138, 139 - 1, 139]], [()]),
    "a jump to a far place": ([[100, 136, 137]], [(138, 139)]),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_the_place_in_the_guess(context: Callable[..., DraftContext], case: str) -> None:
    outputs, expected = FOLLOWED[case]
    assert proposals(context, outputs) == expected


def test_the_nearest_of_equal_places(context: Callable[..., DraftContext]) -> None:
    guess = (1, 2, 3, 50, 1, 2, 4, 60, 1, 2, 5)
    assert proposals(context, [[1, 2, 3, 50, 99, 1, 2]], guess) == [(4, 60, 1)]


def test_without_a_guess(context: Callable[..., DraftContext]) -> None:
    assert proposals(context, [[1, 2]], ()) == [()]


def test_a_released_request_starts_again(context: Callable[..., DraftContext]) -> None:
    live = LivePrediction(4, 32)
    ctx = replace(context([7, 100, 101], 1), prediction=GUESS)
    assert live.propose([ctx], [1])[0].tree.tokens == (102,)
    live.release(ctx.request_id)
    other = replace(context([7], 1), prediction=GUESS)
    assert live.propose([other], [1])[0].tree.tokens == (100,)


def test_requests_with_the_same_guess_share_its_index(
    context: Callable[..., DraftContext],
) -> None:
    """Each of a request's choices had its own, of 688 bytes a token."""
    live, ctx = LivePrediction(4, 32), replace(context([7, 100, 101], 1), prediction=GUESS)
    choices = [replace(ctx, request_id=str(choice)) for choice in range(3)]
    other = replace(ctx, request_id="other", prediction=GUESS[1:])
    live.propose([*choices, other], [1] * 4)
    assert {*live._indexed} == {GUESS, GUESS[1:]}
    for one in choices:
        assert GUESS in live._indexed
        live.release(one.request_id)
    assert {*live._indexed} == {GUESS[1:]}


def test_a_guess_may_be_longer_than_the_output_not_than_the_context(mini: LLM) -> None:
    size = mini.engine.max_model_len
    settings = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    plain, filled = (
        mini.generate(PROMPTS[0], settings, speculation=speculation)[0]
        for speculation in (Speculation(k=0), Speculation(prediction=(5,) * size))
    )
    assert filled.token_ids == plain.token_ids
    for guess in ((5,) * (size + 1), " x" * (size + 1)):
        with pytest.raises(RequestError, match=f"has {size + 1} tokens, but the context holds"):
            mini.generate(PROMPTS[0], settings, speculation=Speculation(prediction=guess))


@pytest.mark.parametrize("wrong", [{"k": 0}, {"max_n": 0}, {"near": 0}])
def test_options_out_of_range(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="wants k, max_n and near >= 1"):
        Prediction(**wrong)


@pytest.mark.parametrize("params", [{"temperature": 0}, {"temperature": 1.0, "seed": 3}])
def test_an_edited_guess_gives_the_same_text_in_fewer_passes(
    mini: LLM, params: dict[str, float]
) -> None:
    settings = SamplingParams(max_tokens=60, ignore_eos=True, **params)
    plain = mini.generate(PROMPTS[0], settings, speculation=Speculation(k=0))[0]
    ids = plain.token_ids
    guesses: tuple[str | tuple[int, ...], ...] = (
        plain.text,
        (*ids[:20], 5, *ids[23:50], *ids[52:]),
    )
    for guess in guesses:
        mini.engine.pool.forget_prefixes()
        output = mini.generate(PROMPTS[0], settings, speculation=Speculation(prediction=guess))[0]
        assert (output.token_ids, output.drafter) == (ids, "prediction")
        assert output.counts.mean_committed_per_pass > 3
    nothing = mini.generate(PROMPTS[0], settings, speculation=Speculation(drafter="prediction"))[0]
    assert nothing.token_ids == ids
    assert nothing.counts.proposed == 0
