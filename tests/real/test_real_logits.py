"""The real Qwen GGUFs in float32 against transformers on the same weights, on real text."""

from __future__ import annotations

import inspect
import textwrap

import numpy as np
import pytest
import torch
from torch import Tensor

from paceline.kernels import Batch, Segment
from paceline.models import LoadedModel, load_model
from tests.model_files import hf_model

POSITIONS = 240
CHUNK = 48
LARGEST_KL = 1e-6
"""Nats, in float64, at every position."""


def logits(model: LoadedModel, tokens: list[int]) -> Tensor:
    """logits[T, V], read in chunks as the engine would."""
    kv, found = model.allocate_kv(len(tokens)), []
    for start in range(0, len(tokens), CHUNK):
        ids = tokens[start : start + CHUNK]
        rows = np.arange(start, start + len(ids))
        segment = Segment(0, np.arange(start), tuple(range(-1, len(ids) - 1)))
        batch = Batch(np.array(ids), rows, rows, (segment,), np.arange(len(ids)))
        found.append(model.forward(batch, kv).logits)
    return torch.cat(found)


@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def test_same_argmax_and_kl(name: str) -> None:
    model = load_model(name)
    tokens = model.tokenizer.encode(inspect.getsource(textwrap))[:POSITIONS]
    assert len(tokens) == POSITIONS
    reference = hf_model(model.spec, dict(model.weights))
    with torch.inference_mode():
        expected = reference(torch.tensor([tokens])).logits[0].double()
    found = logits(model, tokens).double()
    theirs, ours = expected.log_softmax(-1), found.log_softmax(-1)
    kl = (theirs.exp() * (theirs - ours)).sum(-1)
    print(f"{name}: largest KL {kl.max():.2e}, largest difference {(found - expected).abs().max()}")
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
    assert kl.abs().max() <= LARGEST_KL
