"""The torch executor of a program: plain, on any device, and exact in its bits on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from paceline.errors import ConfigError
from paceline.kernels import ops, rows
from paceline.kernels.attention import attend_segment
from paceline.kernels.batch import Batch, KVTensors, PassOutput
from paceline.kernels.packed import PackedWeight


@dataclass(frozen=True, eq=False)
class Pass:
    """One run of a program, its batch on the device of the keys and values."""

    batch: Batch
    kv: KVTensors
    ids: Tensor
    positions: Tensor
    slots: Tensor
    logit_rows: Tensor
    contexts: tuple[Tensor, ...]
    """The context slots of each segment."""
    registers: dict[str, Tensor] = field(default_factory=dict)
    hidden: dict[int, Tensor] = field(default_factory=dict)


@torch.inference_mode()
def run(program: ops.Program, batch: Batch, kv: KVTensors) -> PassOutput:
    """Run one pass; writes the rows' keys and values to their slots of `kv`.

    On a CPU a row's logits, hidden states, keys and values depend, to the bit, on the tokens of
    its own path alone.

    Raises:
        ConfigError: `hidden_layers` names a layer that the program does not have.
    """
    layers = range(len(program.attends))
    for layer in batch.hidden_layers:
        if layer not in layers:
            raise ConfigError(f"There is no layer {layer}; the model has 0 .. {layers.stop - 1}.")
    numbers = (batch.ids, batch.positions, batch.slots, batch.logit_rows)
    contexts = (segment.context_slots for segment in batch.segments)
    ids, positions, slots, wanted, *context_slots = (
        torch.from_numpy(each).to(kv.keys.device) for each in (*numbers, *contexts)
    )
    state = Pass(batch, kv, ids, positions, slots, wanted, tuple(context_slots))
    for op in program.ops:
        KERNELS[type(op)](op, state)
    return PassOutput(state.registers[ops.LOGITS].float(), state.hidden)


def embed(op: ops.Embed, state: Pass) -> None:
    """Look up the rows' tokens."""
    table = op.table
    found = (
        table.rows(state.ids) if isinstance(table, PackedWeight) else F.embedding(state.ids, table)
    )
    state.registers[op.out] = found if op.scale == 1 else found * op.scale


def features(op: ops.Features, state: Pass) -> None:
    """Take the rows' features."""
    found = state.batch.features
    assert found is not None
    assert found.shape == (len(state.ids), op.size)
    state.registers[op.out] = found.to(state.kv.keys.device)


def embed_position(op: ops.EmbedPosition, state: Pass) -> None:
    """Look up the rows' positions."""
    state.registers[op.out] = F.embedding(state.positions, op.table)


def rms_norm(op: ops.RMSNorm, state: Pass) -> None:
    """Normalise each head of each row."""
    source = state.registers[op.source]
    heads = source.view(len(source), op.heads, source.shape[1] // op.heads)
    state.registers[op.out] = rows.rms_norm(heads, op.scale, op.eps).flatten(1)


def layer_norm(op: ops.LayerNorm, state: Pass) -> None:
    """Centre and normalise each row."""
    source = state.registers[op.source]
    state.registers[op.out] = rows.layer_norm(source, op.scale, op.bias, op.eps)


def linear(op: ops.Linear, state: Pass) -> None:
    """Multiply by a weight."""
    x, weight = state.registers[op.source], op.weight
    linear = (
        weight.linear if isinstance(weight, PackedWeight) else partial(rows.linear, weight=weight)
    )
    state.registers[op.out] = linear(x, bias=op.bias)


def rotation(op: ops.Rotation, state: Pass) -> None:
    """Turn the rows' positions into cosines and sines."""
    angles = state.positions[:, None].float() * op.frequencies
    state.registers[op.out] = rows.cos_sin(angles)


def rope(op: ops.Rope, state: Pass) -> None:
    """Rotate each head by its row's position."""
    x, table = state.registers[op.source], state.registers[op.rotation]
    cos, sin = table.unsqueeze(1).chunk(2, dim=-1)  # [T, 1, D / 2]
    left, right = x.float().view(len(x), -1, table.shape[1]).chunk(2, dim=-1)  # [T, H, D / 2]
    turned = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
    state.registers[op.out] = turned.flatten(1).to(x.dtype)


def attend(op: ops.Attend, state: Pass) -> None:
    """Write keys and values, then attend segment by segment."""
    query, key, value = (
        state.registers[name].view(len(state.ids), -1, op.head_size) for name in op.sources
    )
    kv = state.kv
    kv.write(op.layer, state.slots, key, value)
    key, value = kv.read(op.layer, state.slots, query.dtype)
    out = torch.empty_like(query)
    for segment, slots in zip(state.batch.segments, state.contexts, strict=True):
        own = slice(segment.start, segment.start + segment.rows)
        context = kv.read(op.layer, slots, query.dtype)
        out[own] = attend_segment(op, query[own], (key[own], value[own]), context, segment)
    state.registers[op.out] = out.flatten(1)


def silu_mul(op: ops.SiluMul, state: Pass) -> None:
    """Gate."""
    state.registers[op.out] = rows.silu(state.registers[op.gate]) * state.registers[op.up]


def gelu_mul(op: ops.GeluMul, state: Pass) -> None:
    """Gate."""
    state.registers[op.out] = rows.gelu(state.registers[op.gate]) * state.registers[op.up]


def gelu(op: ops.Gelu, state: Pass) -> None:
    """Bend."""
    state.registers[op.out] = rows.gelu(state.registers[op.source])


def soft_cap(op: ops.SoftCap, state: Pass) -> None:
    """Keep within ±cap."""
    state.registers[op.out] = rows.soft_cap(state.registers[op.source], op.cap)


def add(op: ops.Add, state: Pass) -> None:
    """Add two registers."""
    state.registers[op.out] = state.registers[op.left] + state.registers[op.right]


def layer_end(op: ops.LayerEnd, state: Pass) -> None:
    """Keep the hidden states where they are wanted."""
    if op.layer in state.batch.hidden_layers:
        state.hidden[op.layer] = state.registers[op.source]


def logit_rows(op: ops.LogitRows, state: Pass) -> None:
    """Take the rows whose logits are wanted."""
    state.registers[op.out] = state.registers[op.source][state.logit_rows]


KERNELS: dict[type, Callable[[Any, Pass], None]] = {
    ops.Embed: embed,
    ops.EmbedPosition: embed_position,
    ops.Features: features,
    ops.RMSNorm: rms_norm,
    ops.LayerNorm: layer_norm,
    ops.Linear: linear,
    ops.Rotation: rotation,
    ops.Rope: rope,
    ops.Attend: attend,
    ops.SiluMul: silu_mul,
    ops.GeluMul: gelu_mul,
    ops.Gelu: gelu,
    ops.SoftCap: soft_cap,
    ops.Add: add,
    ops.LayerEnd: layer_end,
    ops.LogitRows: logit_rows,
}
