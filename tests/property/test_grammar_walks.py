"""Whatever a grammar's masks allow is in its language, however the masks were reached."""

from __future__ import annotations

import json
import random
import re

import jsonschema
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.structured import StructuredOutput
from tests.grammars import EOS, SCHEMA, SPECS, allowed, matcher, random_tree, text_of, walk

PAIRS = r"[a-cé]=(yes|no)(,[a-cé]=(yes|no)){0,2}"
"""What the GBNF grammar matches."""
kinds = pytest.mark.parametrize("kind", SPECS)
seeds = st.integers(0, 2**32)


def belongs(kind: str, text: str) -> bool:
    """Membership by other means than the grammar's."""
    if kind == "schema":
        jsonschema.validate(json.loads(text), SCHEMA)
        return True
    if kind == "lark":
        while text != (text := re.sub(r"\([a-z]{1,4}ß?(; [a-z]{1,4}ß?)*\)", "a", text)):
            pass
        return text == "a"
    if kind == "choice":
        return text in SPECS[kind].choice
    return bool(re.fullmatch(PAIRS if kind == "gbnf" else str(SPECS[kind].regex), text))


@kinds
@settings(max_examples=12, deadline=None)
@given(seed=seeds)
def test_outputs_are_in_the_language(kind, seed):
    state = matcher(kind)
    tokens = walk(state, random.Random(seed))
    if EOS in allowed(state):
        assert belongs(kind, text_of(tokens))
    else:
        assert len(tokens) == 60, "a walk stopped where nothing was allowed"


@kinds
@settings(max_examples=8, deadline=None)
@given(seed=seeds, length=st.integers(0, 12))
def test_tree_masks_are_those_of_fresh_matchers(kind, seed, length):
    rng = random.Random(seed)
    state = matcher(kind)
    prefix = walk(state, rng, length)
    tree = random_tree(matcher(kind, tuple(prefix)), rng, 8)
    masks = state.masks(tree)
    assert masks.shape[0] == len(tree) + 1
    legal = {()}
    for row, mask in enumerate(masks):
        path = tree.path_tokens(row)
        assert torch.equal(mask, matcher(kind, tuple(prefix)).mask_for(path))
        if path and path[:-1] in legal and masks[tree.parents[row - 1], path[-1]]:
            legal.add(path)
        if path in legal and EOS not in path:
            assert torch.equal(mask, matcher(kind, (*prefix, *path)).mask_for(()))
        else:
            assert mask.nonzero().flatten().tolist() == [EOS]


@kinds
@settings(max_examples=6, deadline=None)
@given(seed=seeds)
def test_drafting_leaves_no_trace(kind, seed):
    rng = random.Random(seed)
    drafted, plain = matcher(kind), matcher(kind)
    for _ in range(12):
        drafted.masks(random_tree(drafted, rng, 5))
        assert drafted.forced(4) == plain.forced(4)
        assert torch.equal(drafted.mask_for(()), plain.mask_for(()))
        assert drafted.finished == plain.finished
        token = rng.choice(allowed(plain))
        drafted.advance([token])
        plain.advance([token])
        if token == EOS:
            break


@kinds
@settings(max_examples=6, deadline=None)
@given(seed=seeds)
def test_forced_tokens_are_all_that_is_allowed(kind, seed):
    rng = random.Random(seed)
    state = matcher(kind)
    walk(state, rng, rng.randint(0, 10))
    forced = state.forced(5)
    for at, token in enumerate(forced):
        assert allowed(state, forced[:at]) == [token]
    if len(forced) < 5 and EOS not in forced:
        assert len(allowed(state, forced)) > 1


@settings(max_examples=25, deadline=None)
@example(choices=["\x7f\0"], seed=0)
@given(
    choices=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    ),
    seed=seeds,
)
def test_choices_of_any_text(choices, seed):
    state = matcher(StructuredOutput(choice=tuple(choices)))
    assert text_of(walk(state, random.Random(seed))) in choices
    assert EOS in allowed(state)
