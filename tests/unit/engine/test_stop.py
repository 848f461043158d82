"""Text ends before the stop string and nothing that could become one is shown early."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine.stop import OutputText, ends
from paceline.models.pull import resolve
from paceline.models.tokenizer import Tokenizer
from paceline.types import SamplingParams, Span

TOKENIZER = Tokenizer.from_hf_folder(resolve("mini"))


def run(text: str, stop: tuple[str, ...]) -> tuple[OutputText, list[str], bool]:
    """Push the ids of a text until it stops; the text so far, what was shown, whether it did."""
    out, shown = OutputText(TOKENIZER, stop), []
    for token in TOKENIZER.encode(text):
        stopped = out.push(token, drafted=False)
        shown.append("".join(span.text for span in out.take()))
        if stopped:
            return out, shown, True
    stopped = out.finish()
    shown.append("".join(span.text for span in out.take()))
    return out, shown, stopped


@pytest.mark.parametrize(
    ("text", "stop", "wanted"),
    [
        ("def f():\n    return 1\n\nx", ("\n\n",), "def f():\n    return 1"),
        ("one two three", (" three", " two"), "one"),
        ("aXbYc", ("bY", "aXb"), ""),
        ("naïve é✓ end", ("✓",), "naïve é"),
        ("no stop here", ("never",), "no stop here"),
    ],
)
def test_the_text_ends_before_the_first_stop_string(
    text: str, stop: tuple[str, ...], wanted: str
) -> None:
    out, shown, stopped = run(text, stop)
    assert out.text == wanted == "".join(shown)
    assert stopped == (wanted != text)


@settings(deadline=None, max_examples=200)
@given(
    st.text("ab \n✓é", max_size=40), st.lists(st.text("ab ✓", min_size=1, max_size=4), max_size=3)
)
def test_what_is_shown_is_never_taken_back(text: str, stop: list[str]) -> None:
    out, shown, stopped = run(text, tuple(stop))
    assert "".join(shown) == out.text
    assert all(out.text.startswith(prefix) for prefix in accumulate(shown))
    assert text.startswith(out.text)
    assert not any(s in out.text for s in stop)
    assert stopped == any(s in text for s in stop)


def test_spans_tell_drafted_text_from_the_targets_own() -> None:
    out = OutputText(TOKENIZER, ("zzzz",))
    spans: list[Span] = []
    for token, drafted in zip(TOKENIZER.encode("abc def ghi"), [True, False] * 20, strict=False):
        assert not out.push(token, drafted)
        spans += out.take()
    out.finish()
    spans += out.take()
    by_char = "".join(("D" if s.drafted else "t") * len(s.text) for s in spans)
    wanted = "".join(
        ("D" if i % 2 == 0 else "t") * len(TOKENIZER.decode([token]))
        for i, token in enumerate(TOKENIZER.encode("abc def ghi"))
    )
    assert by_char == wanted


def test_an_unfinished_character_is_shown_at_the_end_as_a_replacement() -> None:
    ids = TOKENIZER.encode("é✓")
    out = OutputText(TOKENIZER, ())
    for token in ids[:-1]:
        out.push(token, drafted=False)
    out.finish()
    assert out.text == TOKENIZER.decode(ids[:-1])


def test_ids_that_end_the_output() -> None:
    eos = frozenset({0})
    assert ends(0, SamplingParams(), eos)
    assert not ends(0, SamplingParams(ignore_eos=True), eos)
    assert ends(5, SamplingParams(stop_token_ids=(5,), ignore_eos=True), eos)
    assert not ends(6, SamplingParams(stop_token_ids=(5,)), eos)
