"""Pieces: one a token, their texts joined are the output's, stop strings and bytes included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine import LLM
from paceline.engine.stop import OutputText
from paceline.models import Tokenizer
from paceline.server.pieces import Pieces
from paceline.types import Delta, FinishReason


def deltas(
    tokenizer: Tokenizer, ids: list[int], stop: tuple[str, ...], cuts: list[int]
) -> Iterator[tuple[Delta, str]]:
    """What an engine commits of `ids` in steps of `cuts` tokens, and the text so far."""
    output, rest, reason = OutputText(tokenizer, stop), list(ids), None
    while not reason:
        step: list[int] = []
        for _ in range(cuts[len(rest) % len(cuts)]):
            step.append(rest.pop(0))
            stopped = output.push(step[-1], drafted=True) or (not rest and output.finish())
            if stopped or not rest:
                reason = FinishReason.STOP if stopped else FinishReason.LENGTH
                break
        yield (
            Delta(
                request_id="r",
                spans=output.take(),
                token_ids=tuple(step),
                drafted=len(step),
                drafter="d",
                finish_reason=reason,
            ),
            output.text,
        )


@pytest.mark.parametrize("stop", [(), ("ab",), ("é", "aab"), ("b", "日")])
@given(
    text=st.text("abé日 ", max_size=20),
    cuts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    end=st.integers(1, 30),
)
def test_pieces_join_to_the_output(
    mini: LLM, stop: tuple[str, ...], text: str, cuts: list[int], end: int
) -> None:
    ids = mini.tokenizer.encode(text + "x")[:end]
    pieces, found, shown, committed = Pieces(mini.tokenizer), [], "", []
    steps = [*deltas(mini.tokenizer, ids, stop, cuts)]
    for delta, _ in steps:
        shown += delta.text
        committed += delta.token_ids
        found += pieces.push(delta)
        assert shown.startswith("".join(piece.text for piece in found))
    assert [piece.token for piece in found] == committed
    assert "".join(piece.text for piece in found) == steps[-1][1]
    assert all(piece.drafter == "d" and piece.depth > 0 for piece in found)
