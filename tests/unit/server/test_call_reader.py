"""The reader of tool calls: however its text is cut, calls and content are the same."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paceline.server.tools import CLOSE, OPEN, Call, CallReader

NAMES = st.sampled_from(["f", "g_2"])
CALLS = st.builds(
    lambda name, arguments: (
        f"{OPEN}\n" + json.dumps({"name": name, "arguments": arguments}) + f"\n{CLOSE}"
    ),
    NAMES,
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=4), max_size=2),
)
TEXTS = st.text("<tol_ca/>x \n{", max_size=12) | st.sampled_from([OPEN, CLOSE, OPEN + "{}" + CLOSE])


def read(pieces: list[str], many: bool = True) -> tuple[str, list[Call]]:
    reader = CallReader("id", reads=True, many=many)
    parts = [part for piece in pieces for part in reader.push(piece)] + reader.finish()
    text = "".join(part for part in parts if isinstance(part, str))
    return text, [part for part in parts if isinstance(part, Call)]


@given(st.lists(CALLS | TEXTS, max_size=5), st.lists(st.integers(0, 200), max_size=8))
def test_cuts_make_no_difference(parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    text, calls = read(pieces)
    once, same = read([whole])
    assert calls == same
    assert text == once


@given(st.lists(CALLS, min_size=1, max_size=3))
def test_calls_alone_leave_no_text(parts: list[str]) -> None:
    text, calls = read(["\n".join(parts)])
    assert text == ""
    written = [json.loads(part[len(OPEN) : -len(CLOSE)]) for part in parts]
    assert [(c.name, json.loads(c.arguments)) for c in calls] == [
        (w["name"], w["arguments"]) for w in written
    ]
    assert [call.index for call in calls] == [*range(len(parts))]


@given(st.text("<tol_ca/>x \n", max_size=30))
def test_text_without_a_call_is_whole(text: str) -> None:
    if OPEN not in text:
        assert read([*text]) == (text, [])


def test_what_is_no_call_is_content() -> None:
    for broken in (
        f"{OPEN}{{}}{CLOSE}",
        f"{OPEN}[1]{CLOSE}",
        f"a {OPEN}{{",
        f"{OPEN}" + "[" * 9999,
    ):
        assert read([broken]) == (broken, [])
    assert CallReader("id", reads=False).push(f"{OPEN}{{}}{CLOSE}") == [f"{OPEN}{{}}{CLOSE}"]


@given(st.lists(CALLS | TEXTS, max_size=5))
def test_where_one_is_wanted_the_first_is_given(parts: list[str]) -> None:
    whole = "".join(parts)
    text, calls = read([whole])
    beside_one, one = read([whole], many=False)
    assert (beside_one, one) == (text, calls[:1])
