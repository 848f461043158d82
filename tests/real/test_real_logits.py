"""The real Qwen GGUFs in float32 against transformers on the same weights, on real text."""

from __future__ import annotations

import inspect
import textwrap

import pytest
import torch

from paceline.models import load_model
from tests.model_files import hf_model
from tests.real.reading import read

POSITIONS = 240
CHUNK = 48
LARGEST_KL = 1e-6
"""Nats, in float64, at every position."""


@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_same_argmax_and_kl(name: str) -> None:
    model = load_model(name, dtype="float32", kernels="torch")
    tokens = model.tokenizer.encode(inspect.getsource(textwrap))[:POSITIONS]
    assert len(tokens) == POSITIONS
    reference = hf_model(model.spec, dict(model.weights))
    with torch.inference_mode():
        expected = reference(torch.tensor([tokens])).logits[0].double()
    found = torch.cat(list(read(model, tokens, CHUNK))).double()
    theirs, ours = expected.log_softmax(-1), found.log_softmax(-1)
    kl = (theirs.exp() * (theirs - ours)).sum(-1)
    print(f"{name}: largest KL {kl.max():.2e}, largest difference {(found - expected).abs().max()}")
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
    assert kl.abs().max() <= LARGEST_KL
