"""The real GGUFs in float32 against transformers on the same weights, on real text."""

from __future__ import annotations

import inspect
import textwrap

import pytest
import torch

from paceline.models import load_model
from tests.model_files import hf_model
from tests.real.reading import read

POSITIONS = {"qwen2.5-coder-0.5b": 240, "qwen2.5-coder-1.5b": 240, "gemma3-270m": 560}
"""Tokens read: for Gemma more than its window of 512."""
CHUNK = 48
LARGEST_KL = 1e-6
"""Nats, in float64, at every position."""


@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", POSITIONS)
def test_same_argmax_and_kl(name: str) -> None:
    model = load_model(name, dtype="float32", kernels="torch")
    tokens = model.tokenizer.encode(inspect.getsource(textwrap), add_special=True)
    tokens = tokens[: POSITIONS[name]]
    assert len(tokens) == POSITIONS[name]
    reference = hf_model(model.spec, dict(model.weights))
    with torch.inference_mode():
        expected = reference(torch.tensor([tokens])).logits[0].split(CHUNK)
    largest = 0.0
    for found, wanted in zip(read(model, tokens, CHUNK), expected, strict=True):
        theirs, ours = wanted.double().log_softmax(-1), found.double().log_softmax(-1)
        kl = (theirs.exp() * (theirs - ours)).sum(-1)
        largest = max(largest, kl.abs().max().item())
        assert torch.equal(found.argmax(-1), wanted.argmax(-1))
    print(f"{name}: largest KL {largest:.2e}")
    assert largest <= LARGEST_KL
