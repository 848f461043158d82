"""Masks at the ends of things: the end of text, padding, special ids, odd tokenizers, replays."""

from __future__ import annotations

import random

import pytest
import torch

from paceline.errors import RequestError
from paceline.sampling.grammar import Grammars
from paceline.structured import StructuredOutput
from paceline.tree import TokenTree
from tests.grammars import (
    EOS,
    NAMED,
    SPECS,
    TOKENIZER,
    Fake,
    V,
    allowed,
    grammars,
    matcher,
    text_of,
    walk,
)

ABC = StructuredOutput(regex="abc")


def test_one_compilation_a_spec():
    schema = {"properties": {"a": {}, "b": {}}}
    compiled = grammars().compile(StructuredOutput(json_schema=schema))
    assert grammars().compile(StructuredOutput(json_schema=dict(schema))) is compiled
    assert grammars().compile(StructuredOutput(json_schema='{"properties": {}}')) is not compiled


def test_matchers_of_one_grammar_do_not_meet():
    first, second = matcher("regex"), matcher("regex")
    before = second.mask_for(())
    walk(first, random.Random(3))
    assert torch.equal(second.mask_for(()), before)
    assert torch.equal(matcher("regex").mask_for(()), before)


def test_after_the_end_only_the_end():
    state = matcher(ABC, (*TOKENIZER.encode("abc"), EOS))
    assert state.finished
    assert allowed(state) == allowed(state, (EOS,)) == allowed(state, (7, EOS)) == [EOS]
    assert state.forced(3) == ()
    state.advance([EOS])
    assert allowed(state) == [EOS]
    with pytest.raises(RequestError, match="has ended"):
        state.advance(TOKENIZER.encode("a"))


def test_an_end_inside_a_block_ends_it():
    state = matcher(ABC)
    state.advance([*TOKENIZER.encode("abc"), EOS, 7, 8])
    assert state.finished
    assert allowed(state) == [EOS]


def test_finished_before_the_end_is_drawn():
    state = matcher(ABC)
    assert not state.finished
    state.advance(TOKENIZER.encode("abc"))
    assert state.finished
    assert state.forced(5) == (EOS,)


def test_forced_tokens_spell_the_only_text():
    state = matcher(StructuredOutput(choice=("nothing else at all",)))
    forced = state.forced(99)
    assert text_of(list(forced[:-1])) == "nothing else at all"
    assert forced[:-1] == tuple(TOKENIZER.encode("nothing else at all"))
    assert forced[-1] == EOS
    assert state.forced(2) == forced[:2]


def test_every_end_of_text_is_allowed():
    state = grammars(EOS, 300).compile(ABC).matcher(TOKENIZER.encode("abc"))
    assert allowed(state) == [EOS, 300]
    assert state.finished
    assert state.forced(2) == ()
    assert 300 not in allowed(grammars(EOS, 300).compile(StructuredOutput(regex=".*x")).matcher())


def test_ids_without_a_name_are_never_allowed():
    anything = StructuredOutput(grammar="start: <[*]>")
    ids = allowed(matcher(anything))
    assert len(ids) > 1000
    assert max(ids) < NAMED
    assert NAMED < V


def test_special_ids_are_no_text():
    state = matcher(StructuredOutput(regex=r"(?s:.*)"))
    whole = {i for i in range(NAMED) if _is_text(TOKENIZER.token_bytes(i))}
    special = TOKENIZER.special_ids - {EOS}
    assert whole - TOKENIZER.special_ids <= set(allowed(state))
    assert special.isdisjoint(allowed(state))
    name = TOKENIZER.token_bytes(EOS).decode()
    spelled = matcher(StructuredOutput(choice=(name + "!",))).forced(99)
    assert EOS not in spelled[:-1]
    assert text_of(list(spelled[:-1])) == name + "!"


def _is_text(piece: bytes) -> bool:
    return "\ufffd" not in piece.decode(errors="replace")


def test_a_draft_that_breaks_the_grammar_leaves_the_state_alone():
    state = matcher(ABC)
    wrong = TOKENIZER.encode("x")[0]
    chain = TokenTree((wrong, wrong, EOS), (0, 1, 2))
    before = allowed(state)
    assert [row.nonzero().flatten().tolist() for row in state.masks(chain)] == [
        before,
        [EOS],
        [EOS],
        [EOS],
    ]
    assert not state.allows((), wrong)
    assert state.allows((), before[0])
    state.advance(TOKENIZER.encode("abc"))
    assert state.finished


def test_a_branch_does_not_see_the_mask_of_another():
    """llguidance 1.9.1, rolled back from one branch, gives the other the mask of the first."""
    ids = {TOKENIZER.token_bytes(i): i for i in range(NAMED)}
    committed = [ids[piece] for piece in (b"((", b"((", b"ake", b"m")]
    other, close = [ids[piece] for piece in (b";", b" rest", b")")], ids[b")))"]
    masks = matcher("lark", tuple(committed)).masks(TokenTree((*other, close), (0, 1, 2, 0)))
    assert masks[0, close]
    assert not masks[4, close], "one bracket is open, and three were allowed to close"
    assert masks[4, ids[b")"]]


def test_a_committed_token_that_breaks_the_grammar_is_an_error():
    with pytest.raises(RequestError, match="cannot go on"):
        matcher(ABC, tuple(TOKENIZER.encode("abd")))


@pytest.mark.parametrize(
    "change",
    [lambda text: " " + text, str.upper, lambda text: "", lambda text: text + "<|endoftext|>"],
    ids=["blank", "upper", "nothing", "more"],
)
def test_a_tokenizer_that_changes_text_still_spells_the_grammar(change):
    compiled = Grammars(Fake(change), V, [EOS]).compile(SPECS["schema"])
    for seed in range(3):
        tokens = walk(compiled.matcher(), random.Random(seed), 30)
        assert b"".join(map(TOKENIZER.token_bytes, tokens)).startswith(b'{"name":"')


def test_long_forced_texts_cost_little():
    asked: list[int] = []
    compiled = Grammars(Fake(lambda text: asked.append(len(text)) or text), V, [EOS]).compile(
        StructuredOutput(choice=("word " * 10_000,))
    )
    assert text_of(list(compiled.matcher().forced(3))) == "word word word"
    assert 0 < max(asked) < 1000
