"""A program that takes features beside its ids, and one of some layers: native as in torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from paceline.kernels import Batch, KVTensors, ops, run
from paceline.kernels.native import NativeProgram
from paceline.models.decoder import build_program
from tests.tiny_models import SPECS, one_text, random_tokens, random_weights

SPEC = SPECS["qkv biases"]


def adding() -> ops.Program:
    """logits = (embedding + features) · headᵀ, with attention over the sum on the way."""
    weights, E = random_weights(SPEC), SPEC.hidden_size
    heads = {"num_heads": 6, "num_kv_heads": 6, "head_size": E // 6}
    return ops.Program(
        ops=(
            ops.Embed(out="x", table=weights["embed"]),
            ops.Features(out="given", size=E),
            ops.Add(left="x", right="given", out="x"),
            ops.Attend(layer=0, query="x", key="x", value="x", out="seen", scale=E**-0.5, **heads),
            ops.LayerEnd(layer=0, source="seen"),
            ops.LogitRows(source="seen", out="seen"),
            ops.Linear(source="seen", out=ops.LOGITS, weight=weights["head"]),
        )
    )


def with_features(count: int, seed: int = 0) -> Batch:
    batch = one_text(random_tokens(SPEC, count))
    generator = torch.Generator().manual_seed(seed)
    return replace(batch, features=torch.randn(count, SPEC.hidden_size, generator=generator))


def cache(program: ops.Program, layers: int = 1) -> KVTensors:
    first = program.attends[0]
    return KVTensors.zeros((layers, 16, first.num_kv_heads, first.head_size), torch.float32)


def test_features_come_in_beside_the_ids() -> None:
    program = adding()
    native = NativeProgram(program)
    for count in (9, 4):  # registers are larger than the second pass needs
        batch = replace(with_features(count, count), hidden_layers=(0,))
        found = native.run(batch, cache(program))
        wanted = run(program, batch, cache(program))
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found.hidden[0], wanted.hidden[0], rtol=1e-4, atol=1e-4)
    other = native.run(with_features(4, 99), cache(program)).logits
    assert not torch.allclose(other, wanted.logits, atol=1e-2)


@pytest.mark.parametrize("width", [None, 3])
def test_features_that_do_not_fit_are_refused(width: int | None) -> None:
    program, batch = adding(), one_text([1, 2, 3])
    features = None if width is None else torch.zeros(3, width)
    with pytest.raises(ValueError, match=r"features of a pass must be \[3, 48\]"):
        NativeProgram(program).run(replace(batch, features=features), cache(program))


def test_some_layers_run_on_the_cache_of_all() -> None:
    """Their keys and values are those of the same layers; the others' are not touched."""
    weights, tokens = random_weights(SPEC), random_tokens(SPEC, 8)
    program = build_program(SPEC, weights, kept=(2, 0))
    assert [op.layer for op in program.attends] == [0, 2]
    kv, same = cache(program, SPEC.num_layers), cache(program, SPEC.num_layers)
    found = NativeProgram(program).run(one_text(tokens), kv).logits
    wanted = run(program, one_text(tokens), same).logits
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(kv.keys, same.keys, rtol=1e-4, atol=1e-4)
    assert not kv.keys[1].any()
    assert kv.keys[0, : len(tokens)].any()
    assert np.all([kv.keys[2, : len(tokens)].any(), not kv.keys[:, len(tokens) :].any()])
