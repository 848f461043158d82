"""A program is checked once, when it is built."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch

from paceline.errors import ConfigError, ModelError
from paceline.kernels import ops, reference
from paceline.kernels.attention import attend_rows, paths
from paceline.kernels.batch import Segment
from tests.tiny_models import SPECS, Bench, Rows

EMBED = ops.Embed(out="x", table=torch.ones(9, 4))
TAKE = ops.LogitRows(source="x", out="x")
HEAD = ops.Linear(source="x", out="logits", weight=torch.ones(9, 4))


def test_every_operation_has_a_kernel() -> None:
    assert set(reference.KERNELS) == set(get_args(ops.Op))


def test_registers_have_their_rows_and_widths() -> None:
    program = ops.Program(ops=(EMBED, ops.Add(left="x", right="x", out="y"), TAKE, HEAD))
    assert program.registers == {"x": (True, 4), "y": (False, 4), "logits": (True, 9)}


def test_attends_in_order() -> None:
    program = Bench(SPECS["qkv biases"]).program
    assert [op.layer for op in program.attends] == [0, 1, 2]


NORM = ops.RMSNorm(source="x", out="x", scale=torch.ones(5), eps=0.1)
ATTEND = ops.Attend(
    layer=0, query="x", key="x", value="x", out="x", num_heads=2, num_kv_heads=1, head_size=2,
    scale=0.5,
)  # fmt: skip
LAYER_NORM = ops.LayerNorm(source="x", out="x", scale=torch.ones(4), bias=torch.ones(3), eps=0.1)
HEAD_NORM = ops.RMSNorm(source="x", out="x", scale=torch.ones(2), eps=0.1, heads=3)
WRONG = {
    "nothing wrote 'x'": (TAKE, HEAD),
    "leaves no logits": (EMBED, TAKE),
    "no logits of the logit rows": (EMBED, HEAD),
    "RMSNorm: a width of 4 meets one of 5": (EMBED, NORM, TAKE, HEAD),
    "LayerNorm: a width of 4 meets one of 3": (EMBED, LAYER_NORM, TAKE, HEAD),
    "RMSNorm: a width of 4 meets one of 6": (EMBED, HEAD_NORM, TAKE, HEAD),
    "Attend: a width of 4 meets one of 2": (EMBED, ATTEND, TAKE, HEAD),
    "Linear: a width of 4 meets one of 3": (
        EMBED,
        ops.Linear(source="x", out="y", weight=torch.ones(7, 3)),
        TAKE,
        HEAD,
    ),
    "Linear: a width of 2 meets one of 9": (
        EMBED,
        TAKE,
        ops.Linear(source="x", out="logits", weight=torch.ones(9, 4), bias=torch.ones(2)),
    ),
    "4 is no multiple of the head size 6": (
        EMBED,
        ops.Rotation(out="r", frequencies=torch.ones(3)),
        ops.Rope(source="x", out="x", rotation="r"),
        TAKE,
        HEAD,
    ),
    "LogitRows: its sources have other rows": (EMBED, TAKE, TAKE, HEAD),
    "Add: its sources have other rows": (
        EMBED,
        ops.LogitRows(source="x", out="y"),
        ops.Add(left="x", right="y", out="x"),
        HEAD,
    ),
    "SiluMul: a width of 4 meets one of 9": (
        EMBED,
        TAKE,
        HEAD,
        ops.SiluMul(gate="x", up="logits", out="x"),
    ),
    "GeluMul: a width of 4 meets one of 9": (
        EMBED,
        TAKE,
        HEAD,
        ops.GeluMul(gate="x", up="logits", out="x"),
    ),
}


@pytest.mark.parametrize("complaint", WRONG)
def test_a_program_that_does_not_fit_together(complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        ops.Program(ops=WRONG[complaint])


def test_a_layer_that_is_not_there() -> None:
    bench = Bench(SPECS["qkv biases"])
    with pytest.raises(ConfigError, match=r"no layer 3; the model has 0 \.\. 2"):
        bench.forward(Rows([1], 0, bench.slots(1)), hidden_layers=(3,))


def test_paths_of_a_chain_and_of_a_tree() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    assert paths(Segment(0, nothing, (-1, 0, 1))) == [(0,), (0, 1), (0, 1, 2)]
    tree = Segment(0, nothing, (-1, 0, 0, 2, -1))
    assert paths(tree) == [(0,), (0, 1), (0, 2), (0, 2, 3), (4,)]


@pytest.mark.parametrize("window", [None, 1, 4, 11, 20])
@pytest.mark.parametrize("cap", [None, 0.7])
def test_attention_of_a_row_is_its_formula(window: int | None, cap: float | None) -> None:
    query, keys, values = torch.randn(6, 8), torch.randn(11, 2, 8), torch.randn(11, 2, 8)
    op = replace(ATTEND, num_heads=6, head_size=8, scale=0.3, window=window, soft_cap=cap)
    found = attend_rows(op, query[None], keys, values)[0]
    near = slice(max(0, 11 - (window or 11)), 11)
    for head in range(6):
        scores = keys[near, head // 3].double() @ query[head].double() * 0.3
        scores = scores if cap is None else cap * torch.tanh(scores / cap)
        expected = torch.softmax(scores, 0) @ values[near, head // 3].double()
        torch.testing.assert_close(found[head].double(), expected, atol=1e-6, rtol=0)
