"""int8 activations cost a quantised model next to nothing: perplexity against float32."""

from __future__ import annotations

import heapq
import inspect
import math
import textwrap

import pytest
import torch

from paceline.models import LoadedModel, load_model
from tests.real.reading import read

TOKENS = 2000
LARGEST_LOSS = 0.005
"""Relative difference of the perplexities."""


def perplexity(model: LoadedModel, tokens: list[int]) -> float:
    """exp of the mean loss over the text, the first token given."""
    targets, total = torch.tensor(tokens[1:]), 0.0
    for chunk, wanted in zip(read(model, tokens[:-1], 100), targets.split(100), strict=True):
        total += float(torch.nn.functional.cross_entropy(chunk.double(), wanted, reduction="sum"))
    return math.exp(total / len(targets))


@pytest.mark.real
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_perplexity_of_the_file_as_it_is_stored(name: str) -> None:
    native = load_model(name, kernels="native")
    text = inspect.getsource(textwrap) + inspect.getsource(heapq)
    tokens = native.tokenizer.encode(text)[:TOKENS]
    assert len(tokens) == TOKENS
    found = perplexity(native, tokens)
    del native
    expected = perplexity(load_model(name, dtype="float32", kernels="torch"), tokens)
    print(f"{name}: perplexity {found:.5f} native, {expected:.5f} in float32")
    assert abs(found / expected - 1) <= LARGEST_LOSS
