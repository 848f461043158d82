"""GGUF key-values are hostile: each damage gives one error that names the file and the field."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_vocabularies import byte_level_metadata, sentence_piece_metadata

from paceline.errors import ModelError, ModelFileError, UnsupportedModelError
from paceline.models.tokenizer import Tokenizer

GGUF = Path("model.gguf")
TOKENS: list[Any] = byte_level_metadata()["tokenizer.ggml.tokens"]
SCORES: list[Any] = sentence_piece_metadata()["tokenizer.ggml.scores"]


def load(metadata: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_gguf(metadata, GGUF)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"tokens": None}, "tokens", "is missing or empty"),
        ({"tokens": []}, "tokens", "is missing or empty"),
        ({"tokens": "abc"}, "tokens", "is str, not an array"),
        ({"tokens": 7}, "tokens", "is int, not an array"),
        ({"tokens": [*TOKENS[:-1], b"x"]}, "tokens[272]", "is bytes, not str"),
        ({"tokens": [*TOKENS[:-1], "!"]}, "tokens[272]", "'!' is id 0 already"),
        ({"tokens": TOKENS[:-1]}, "token_type", "has 273 items for 272 tokens"),
        ({"token_type": [1.0] * len(TOKENS)}, "token_type[0]", "is float, not int"),
        ({"token_type": [True] * len(TOKENS)}, "token_type[0]", "is bool, not int"),
        ({"merges": ["a b c"]}, "merges[0]", "is not two tokens"),
        ({"merges": ["ab"]}, "merges[0]", "is not two tokens"),
        ({"merges": [3]}, "merges[0]", "is int, not str"),
        ({"merges": ["a nowhere"]}, "merges", "nowhere"),
        ({"bos_token_id": len(TOKENS)}, "bos_token_id", "is no integer in 0 .. 272"),
        ({"eos_token_id": -1}, "eos_token_id", "is no integer in 0 .. 272"),
        ({"eot_token_id": 2**32 - 1}, "eot_token_id", "is no integer in 0 .."),
        ({"eos_token_id": "2"}, "eos_token_id", "'2' is no integer"),
        ({"bos_token_id": True}, "bos_token_id", "True is no integer"),
        ({"add_bos_token": 1}, "add_bos_token", "1 is no boolean"),
        ({"pre": 3}, "pre", "3 is no string"),
        ({"model": None}, "model", "is missing"),
        ({"model": ["gpt2"]}, "model", "is no string"),
        ({"chat_template": ["x"]}, "chat_template", "is no string"),
    ],
)
def test_a_damaged_byte_level_vocabulary(changes: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        load(byte_level_metadata(**changes))
    assert caught.value.path == GGUF
    assert caught.value.field.removeprefix("tokenizer.").removeprefix("ggml.") == field
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"scores": None}, "scores", "is missing"),
        ({"scores": SCORES[1:]}, "scores", "items for"),
        ({"scores": ["x"] * len(SCORES)}, "scores[0]", "is str, not float"),
        ({"unknown_token_id": 10**6}, "unknown_token_id", "is no integer in 0 .."),
        ({"add_space_prefix": "yes"}, "add_space_prefix", "'yes' is no boolean"),
    ],
)
def test_a_damaged_sentence_piece_vocabulary(
    changes: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(ModelFileError) as caught:
        load(sentence_piece_metadata(**changes))
    assert caught.value.field == f"tokenizer.ggml.{field}"
    assert problem in str(caught.value)


def test_unknown_kinds_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedModelError, match=r"model\.gguf: no support for .* 't5'"):
        load(byte_level_metadata(model="t5"))
    with pytest.raises(UnsupportedModelError, match=r"pre-tokenizer 'klingon'.*qwen2"):
        load(byte_level_metadata("klingon"))


def test_rows_of_padding_have_no_name_and_other_unused_rows_keep_theirs() -> None:
    tokenizer = load(byte_level_metadata())
    assert tokenizer.vocab_size == len(TOKENS) - 2
    kept = load(byte_level_metadata(tokens=[*TOKENS[:-1], "<unused0>"]))
    assert kept.id_to_token(len(TOKENS) - 1) == "<unused0>"
    assert kept.id_to_token(len(TOKENS) - 2) is None


def test_a_very_long_piece_costs_no_more_than_others() -> None:
    """Cutting a piece everywhere is quadratic in its length; a hostile one has a megabyte."""
    metadata = sentence_piece_metadata()
    metadata["tokenizer.ggml.tokens"][-1] = "h" * 1_000_000
    metadata["tokenizer.ggml.token_type"][-1] = 1
    assert load(metadata).decode(load(metadata).encode("hello")) == "hello"


VALUES = ("tokens", "token_type", "merges", "scores", "model", "pre")
SPECIAL = ("bos", "eos", "unknown")
HOSTILE = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.one_of(st.text(max_size=3), st.integers(), st.floats()), max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(
    sentence_piece=st.booleans(),
    changes=st.dictionaries(
        st.sampled_from(
            ["add_bos_token", "add_space_prefix", *VALUES, *(f"{t}_token_id" for t in SPECIAL)]
        ),
        HOSTILE,
        min_size=1,
        max_size=2,
    ),
)
def test_whatever_the_values_a_tokenizer_or_a_model_error(
    sentence_piece: bool, changes: dict[str, Any]
) -> None:
    build = sentence_piece_metadata if sentence_piece else byte_level_metadata
    metadata = {**build(), **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}
    with contextlib.suppress(ModelError):
        tokenizer = load(metadata)
        assert tokenizer.decode(tokenizer.encode("hello")).strip() == "hello"
