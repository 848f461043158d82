"""Settings that look back: each against its definition, at drafted nodes as after their commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from paceline.errors import RequestError
from paceline.sampling.adjust import SETTINGS, adjust
from paceline.sampling.prefix import History, Prefix, SettingIds
from paceline.types import SamplingParams

V = 12
IDS = SettingIds(ends=(10, 11), bad_words=((3,), (4, 5), (4, 4, 6)), thinking=((7,), (8, 9)))
TEXT = st.lists(st.integers(0, V - 1), max_size=12)
LOGITS = torch.linspace(-3, 3, V)[torch.tensor([5, 0, 11, 3, 8, 1, 10, 2, 7, 4, 9, 6])]

EVERYTHING = SamplingParams(
    bad_words=("x",),
    thinking_budget=2,
    min_tokens=3,
    logit_bias={1: 2.5, 2: -100.0},
    repetition_penalty=1.3,
    frequency_penalty=0.7,
    presence_penalty=-0.4,
    logits_processors=(lambda output, row: row - 0.01 * len(output) * torch.arange(V),),
)


def found(params: SamplingParams, prompt: list[int], output: list[int], drafted: int = 0) -> Tensor:
    """The logits behind a text whose last `drafted` tokens are a path."""
    committed = [*prompt, *output[: len(output) - drafted]]
    prefix = Prefix(History(committed, len(prompt), IDS), tuple(output[len(output) - drafted :]))
    return adjust(LOGITS[None], [params], [prefix])[0]


def test_nothing_to_do_is_no_copy() -> None:
    rows = LOGITS[None]
    for params in (SamplingParams(), SamplingParams(temperature=0.3, top_k=2)):
        assert adjust(rows, [params], None) is rows


@given(TEXT, TEXT, st.data())
def test_a_drafted_path_counts_as_if_it_were_committed(
    prompt: list[int], output: list[int], data: Any
) -> None:
    """To the bit, however much of the output is drafted."""
    drafted = data.draw(st.integers(0, len(output)))
    expected = found(EVERYTHING, prompt, output)
    assert torch.equal(found(EVERYTHING, prompt, output, drafted), expected)


@given(TEXT, TEXT)
def test_penalties(prompt: list[int], output: list[int]) -> None:
    params = SamplingParams(repetition_penalty=1.5, frequency_penalty=0.5, presence_penalty=0.25)
    expected = LOGITS.clone()
    for token in {*prompt, *output}:
        expected[token] = expected[token] / 1.5 if expected[token] > 0 else expected[token] * 1.5
    for token in set(output):
        expected[token] -= 0.5 * output.count(token)
        expected[token] -= 0.25
    assert torch.equal(found(params, prompt, output), expected)


@given(TEXT, TEXT)
def test_bad_words_end_in_the_output_alone(prompt: list[int], output: list[int]) -> None:
    expected = {3}
    expected |= {5} if output[-1:] == [4] else set()
    expected |= {6} if output[-2:] == [4, 4] else set()
    row = found(SamplingParams(bad_words=("x",)), prompt, output)
    assert set(torch.nonzero(row == -torch.inf).flatten().tolist()) == expected


@pytest.mark.parametrize("length", range(5))
def test_nothing_ends_before_min_tokens(length: int) -> None:
    row = found(SamplingParams(min_tokens=3), [10], [0] * length)
    assert row.isneginf().tolist() == [token in (10, 11) and length < 3 for token in range(V)]


def test_allowed_ids_and_bias() -> None:
    row = found(SamplingParams(allowed_token_ids=(2, 5), logit_bias={5: 1.5, 6: 50}), [], [])
    assert torch.nonzero(row.isfinite()).flatten().tolist() == [2, 5]
    assert (row[2], row[5]) == (LOGITS[2], LOGITS[5] + 1.5)


def test_allowed_ids_are_read_once_for_all_rows() -> None:
    """The tuple was turned into a tensor for each row of each pass."""
    params = SamplingParams(allowed_token_ids=(2, 5))
    found(params, [], [])
    ids = vars(params)["allowed_ids"]
    found(params, [], [])
    assert vars(params)["allowed_ids"] is ids
    assert ids.tolist() == [2, 5]


THOUGHTS: dict[str, tuple[list[int], list[int], int | None]] = {
    "never opened": ([1], [0, 0, 0], None),
    "within the budget": ([7], [0], None),
    "used up": ([7], [0, 0], 8),
    "opened by the output": ([1], [7, 0, 0], 8),
    "half closed": ([7], [0, 0, 8], 9),
    "closed": ([7], [0, 0, 8, 9], None),
    "opened again": ([7, 8, 9], [7, 0, 0], 8),
    "opened within itself": ([7], [0, 7], 8),
    "a closing mark begun before the budget ran out": ([7], [0, 8], 8),
    "still too long after a false start": ([7], [0, 0, 8, 1], 8),
}


@pytest.mark.parametrize("case", THOUGHTS)
def test_a_thought_is_closed(case: str) -> None:
    prompt, output, forced = THOUGHTS[case]
    for drafted in range(len(output) + 1):
        row = found(SamplingParams(thinking_budget=2), prompt, output, drafted)
        expected = list(range(V)) if forced is None else [forced]
        assert torch.nonzero(row.isfinite()).flatten().tolist() == expected


def test_processors_see_the_path_and_come_before_penalties() -> None:
    seen = []

    def mirror(output: list[int], row: Tensor) -> Tensor:
        seen.append(output)
        return -row

    params = SamplingParams(logits_processors=(mirror,), presence_penalty=1.0)
    row = found(params, [3], [1, 2], drafted=1)
    assert seen == [[1, 2]]
    expected = -LOGITS
    expected[[1, 2]] -= 1
    assert torch.equal(row, expected)


@pytest.mark.parametrize("wrong", [None, torch.zeros(V - 1), [0.0] * V])
def test_a_processor_that_returns_no_logits(wrong: Any) -> None:
    params = SamplingParams(logits_processors=(lambda output, row: wrong,))
    with pytest.raises(RequestError, match=r"must return logits of \[12\]"):
        found(params, [], [])


def test_a_row_without_its_prefix() -> None:
    with pytest.raises(ValueError, match="give its prefix"):
        adjust(LOGITS[None], [EVERYTHING], None)


def test_rows_keep_their_own_settings_and_the_input_stays() -> None:
    rows = torch.stack([LOGITS, LOGITS + 1])
    before = rows.clone()
    prefixes = [Prefix(History([1, 2], 1, IDS)) for _ in rows]
    out = adjust(rows, [SamplingParams(), SamplingParams(presence_penalty=1.0)], prefixes)
    assert torch.equal(rows, before)
    assert torch.equal(out[0], before[0])
    assert out[1, 2] == before[1, 2] - 1


def test_the_history_follows_the_live_list() -> None:
    tokens = [1, 2]
    history = History(tokens, 1, IDS)
    assert dict(zip(*history.output_counts(), strict=True)) == {2: 1}
    tokens += [2, 5]
    assert dict(zip(*history.output_counts((5, 6)), strict=True)) == {2: 2, 5: 2, 6: 1}
    assert dict(zip(*history.all_counts(), strict=True)) == {1: 1, 2: 2, 5: 1}


def test_the_order_is_the_documented_one() -> None:
    names: list[Callable[..., None]] = list(SETTINGS)
    assert [setting.__name__ for setting in names] == [
        "structured",
        "allowed_token_ids",
        "bad_words",
        "thinking_budget",
        "min_tokens",
        "logit_bias",
        "logits_processors",
        "repetition_penalty",
        "frequency_penalty",
        "presence_penalty",
    ]
