"""What callers of the Python API may give, and what they are told where it is something else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from paceline.engine import LLM
from paceline.engine.prompts import as_prompts
from paceline.errors import ConfigError, RequestError
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS

SHORT = SamplingParams(temperature=0, max_tokens=4)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"max_tokens": 2.5}, "max_tokens must be an integer, not 2.5."),
        ({"max_tokens": True}, "max_tokens must be an integer, not True."),
        ({"n": "2"}, "n must be an integer, not '2'."),
        ({"seed": 1.5}, "seed must be an integer or None, not 1.5."),
        ({"logprobs": "2"}, "logprobs must be an integer or None, not '2'."),
        ({"temperature": "x"}, "temperature must be a number, not 'x'."),
        ({"temperature": None}, "temperature must be a number, not None."),
        ({"temperature": 10**400}, "temperature must be a number, not 1000"),
        ({"top_p": "a"}, "top_p must be a number, not 'a'."),
        ({"logit_bias": [1]}, "logit_bias must be a mapping of integers to numbers, not [1]."),
        ({"logit_bias": {"1": 2}}, "logit_bias must be a mapping of integers to numbers, not {'1'"),
        ({"stop": 5}, "stop must be a string or a sequence of strings, not 5."),
        ({"stop": [5]}, "stop must be a string or a sequence of strings, not [5]."),
        ({"bad_words": b"abc"}, "bad_words must be a string or a sequence of strings, not b'abc'"),
        ({"stop_token_ids": b"abc"}, "stop_token_ids must be a sequence of integers, not b'abc'."),
        ({"logits_processors": [1]}, "logits_processors must be a sequence of callables, not [1]."),
        ({"ignore_eos": "no"}, "ignore_eos must be True or False, not 'no'."),
        ({"structured": {}}, "structured must be StructuredOutput or None, not {}."),
    ],
)
def test_settings_of_another_type(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RequestError, match=re.escape(complaint)):
        SamplingParams(**settings)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"k": 2.5}, "k must be an integer or a string or None, not 2.5."),
        ({"drafter": 5}, "drafter must be a string or None, not 5."),
        (
            {"prediction": [1.5]},
            "prediction must be a string or a sequence of integers, not [1.5].",
        ),
        (
            {"prediction": b"ab"},
            "prediction must be a string or a sequence of integers, not b'ab'.",
        ),
    ],
)
def test_speculation_of_another_type(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RequestError, match=re.escape(complaint)):
        Speculation(**asked)


def test_a_string_is_one_word() -> None:
    params = SamplingParams(bad_words="abc", stop="end")  # type: ignore[arg-type]
    assert (params.bad_words, params.stop) == (("abc",), ("end",))
    assert StructuredOutput(choice="yes").choice == ("yes",)  # type: ignore[arg-type]


def test_numbers_of_numpy_become_pythons() -> None:
    params = SamplingParams(
        temperature=np.float32(0.5),  # type: ignore[arg-type]
        max_tokens=np.int64(9),  # type: ignore[arg-type]
        stop_token_ids=np.array([3, 4]),  # type: ignore[arg-type]
        logit_bias={np.int32(7): np.float64(1.5)},  # type: ignore[dict-item]
    )
    assert params == SamplingParams(
        temperature=0.5, max_tokens=9, stop_token_ids=(3, 4), logit_bias={7: 1.5}
    )
    assert (type(params.temperature), type(params.max_tokens)) == (float, int)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_ids_of_every_kind(kind: Any) -> None:
    assert as_prompts(kind([5, 6])) == [(5, 6)]
    assert as_prompts(kind([[5], [6]])) == [(5,), (6,)]


@pytest.mark.parametrize(
    ("prompts", "complaint"),
    [
        (5, "prompts must be a string or a sequence of items, not 5."),
        (None, "prompts must be a string or a sequence of items, not None."),
        (b"abc", "prompts must be a string or a sequence of items, not b'abc'."),
        ({"prompt": "x"}, "prompts must be a string or a sequence of items, not {'prompt': 'x'}"),
        ([[1.5]], "prompts[0] must be a string or a sequence of integers, not [1.5]."),
        (["x", b"abc"], "prompts[1] must be a string or a sequence of integers, not b'abc'."),
        ([1.5], "prompts[0] must be a string or a sequence of integers, not 1.5."),
        ([True], "prompts[0] must be a string or a sequence of integers, not True."),
        ([1, "x"], "A list of prompts holds ids beside prompts"),
    ],
)
def test_prompts_of_another_type(mini: LLM, prompts: Any, complaint: str) -> None:
    with pytest.raises(RequestError, match=re.escape(complaint)):
        mini.generate(prompts)


@pytest.mark.parametrize("params", [{"n": 1}, {}, "", "greedy", 5, [{}]])
def test_params_of_another_type(mini: LLM, params: Any) -> None:
    for ask in (mini.generate, mini.stream):
        with pytest.raises(RequestError, match=r"params must be SamplingParams or .*, not "):
            ask("x", params)
    with pytest.raises(RequestError, match="speculation must be Speculation or None, not "):
        mini.generate("x", speculation=params)
    assert not mini.engine.has_work


@pytest.mark.parametrize("messages", [5, None, "hi", ["hi"], {"role": "user"}, [[1]]])
def test_messages_of_another_type(mini: LLM, messages: Any) -> None:
    with pytest.raises(RequestError, match=r"messages(\[0\])? must be a sequence of "):
        mini.chat(messages)


def test_a_stream_is_of_one_prompt(mini: LLM) -> None:
    with pytest.raises(RequestError, match=r"one prompt, not 2; use generate\(\)"):
        mini.stream(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="prompt is empty"):
        mini.stream([])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"k": 2.5}, "k must be an integer or a string or None, not 2.5."),
        ({"k": "a"}, "k must be a number or 'auto', not 'a'."),
        ({"device": None}, "device must be a string, not None."),
        ({"draft": 5}, "draft must be a string or a sequence of strings, not 5."),
        ({"draft": None}, "draft must be a string or a sequence of strings, not None."),
        ({"config": {}}, "config must be EngineConfig or None, not {}."),
        ({"threads": 0}, "threads must be in 1 .. 1024, not 0."),
        ({"threads": -1}, "threads must be in 1 .. 1024, not -1."),
        ({"threads": "2"}, "threads must be an integer or None, not '2'."),
        ({"threads": 2**31}, "threads must be in 1 .. 1024, not 2147483648."),
    ],
)
def test_arguments_are_checked_before_the_model_is_looked_for(
    arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        LLM("no-such-model", **arguments)


def test_a_stream_is_an_iterator(mini: LLM) -> None:
    (expected,) = mini.generate(PROMPTS[0], SHORT)
    stream = mini.stream(PROMPTS[0], SHORT)
    deltas = [next(stream)]
    assert stream.output is None
    deltas += stream
    assert "".join(delta.text for delta in deltas) == expected.text
    assert stream.output is not None
    assert stream.output.token_ids == expected.token_ids
    assert next(stream, None) is None


def test_a_stream_that_is_closed_has_no_next(mini: LLM) -> None:
    stream = mini.stream(PROMPTS[0], SHORT)
    next(stream)
    stream.close()
    assert next(stream, None) is None
    assert not mini.engine.has_work
