"""The native executor of a program: a whole pass is one call into the library.

A program is translated once: weights packed, registers numbered, operations laid out as C structs.
Each pass then fills in where its rows, slots and segments lie, after checking all that the native
code would follow blindly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.errors import ConfigError, UnsupportedModelError
from paceline.kernels import ops
from paceline.kernels.arena import buffer
from paceline.kernels.batch import Batch, KVTensors, Numbers, PassOutput, Segment
from paceline.kernels.library import OpStruct, PassStruct, RegisterStruct, SegmentStruct, library
from paceline.kernels.packed import FORMATS, PackedWeight, pack

KINDS: dict[type, int] = {
    kind: number
    for number, kind in enumerate(
        (
            *(ops.Embed, ops.RMSNorm, ops.Linear, ops.Rotation, ops.Rope),
            *(ops.Attend, ops.SiluMul, ops.Add, ops.LayerEnd, ops.LogitRows),
            *(ops.EmbedPosition, ops.LayerNorm, ops.GeluMul, ops.Gelu, ops.SoftCap),
        )
    )
}
"""pl_op_kind of csrc/paceline_native.h."""

FLOATS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
KV_TYPES = {dtype: FORMATS[name] for dtype, name in FLOATS.items()} | {torch.int8: 24}
"""Numbers of keys and values -> pl_format."""


class NativeProgram:
    """A program in the library's terms. Not for two threads at once: its registers are its own.

    Raises:
        ConfigError: the library was not built.
        UnsupportedModelError: an operation or a weight has no native kernel.
    """

    def __init__(self, program: ops.Program) -> None:
        self.program = program
        self._kept: list[Any] = []
        self._packed: dict[int, PackedWeight] = {}
        self._widths: list[tuple[bool, int]] = []
        self._names: dict[tuple[str, bool], int] = {}
        self._given: int | None = None
        self._ops = self._translate()
        self._registers: list[Tensor] = []
        self._capacity = 0, 0
        self._scratch = buffer(self._scratch_bytes())

    @torch.inference_mode()
    def run(self, batch: Batch, kv: KVTensors) -> PassOutput:
        """Run one pass; writes the rows' keys and values to their slots of `kv`.

        The outcome is valid until the next pass.

        Raises:
            ConfigError: `hidden_layers` names a layer that the program does not have.
            ValueError: an id, slot, parent, row or tensor that the pass cannot use.
        """
        _check_batch(batch, self.program, kv)
        self._reserve(len(batch.ids), len(batch.logit_rows))
        hidden = {
            layer: torch.empty(len(batch.ids), self._hidden_widths[layer])
            for layer in batch.hidden_layers
        }
        if self._given is not None:
            given = self._registers[self._given][: len(batch.ids)]
            if batch.features is None or batch.features.shape != given.shape:
                raise ValueError(f"The features of a pass must be {list(given.shape)}.")
            given.copy_(batch.features)
        arguments, kept = self._pass(batch, kv, hidden)
        status = library().pl_run(
            self._ops, len(self._ops), self._register_structs, ctypes.byref(arguments)
        )
        del kept
        if status:
            raise ValueError(f"The native kernels refused the pass (status {status}).")
        return PassOutput(self._registers[self._logits][: len(batch.logit_rows)], hidden)

    def _translate(self) -> ctypes.Array[OpStruct]:
        at: dict[str, int] = {}
        self._hidden_widths: dict[int, int] = {}
        structs = []
        for op in self.program.ops:
            if isinstance(op, ops.Features):  # filled in before the call
                at[op.out] = self._given = self._register(op.out, False, op.size)
                continue
            if type(op) not in KINDS:
                raise UnsupportedModelError(f"{type(op).__name__} has no native kernel.")
            sources = [at[name] for name in op.sources]
            widths = [self._widths[source] for source in sources]
            logit_row = isinstance(op, ops.LogitRows) or (True in {flag for flag, _ in widths})
            width = op.width(*(width for _, width in widths))
            if isinstance(op, ops.LayerEnd):
                self._hidden_widths[op.layer] = width
            else:
                at[op.out] = self._register(op.out, logit_row, width)
            out = -1 if op.out is None else at[op.out]
            structs.append(self._struct(op, out, sources, logit_row))
        self._logits = at[ops.LOGITS]
        return (OpStruct * len(structs))(*structs)

    def _register(self, name: str, logit_row: bool, width: int) -> int:
        """The number of a register; a name may hold T rows first and N rows later."""
        number = self._names.setdefault((name, logit_row), len(self._widths))
        if number == len(self._widths):
            self._widths.append((logit_row, width))
        if self._widths[number][1] != width:
            raise UnsupportedModelError(f"Register '{name}' changes its width.")
        return number

    def _struct(self, op: ops.Op, out: int, sources: list[int], logit_row: bool) -> OpStruct:
        if isinstance(op, ops.Linear | ops.Rope) and out == sources[0] and len(sources) == 1:
            raise UnsupportedModelError(f"A product cannot overwrite its source '{op.out}'.")
        struct = OpStruct(kind=KINDS[type(op)], out=out, per_logit_row=logit_row)
        struct.sources[:] = [*sources, -1, -1, -1][:3]
        match op:
            case ops.Embed():
                struct.weight, struct.scale = self._weight(op.table), op.scale
            case ops.EmbedPosition():
                struct.weight, struct.scale = self._weight(op.table), 1.0
            case ops.Linear():
                struct.weight, struct.vector = self._weight(op.weight), self._vector(op.bias)
            case ops.RMSNorm():
                struct.vector, struct.eps = self._vector(op.scale), op.eps
                struct.heads = op.heads
            case ops.LayerNorm():
                struct.vector, struct.eps = self._vector(op.scale), op.eps
                struct.shift = self._vector(op.bias)
            case ops.Rotation():
                struct.vector = self._vector(op.frequencies)
            case ops.Attend():
                struct.layer, struct.heads = op.layer, op.num_heads
                struct.kv_heads, struct.head_size = op.num_kv_heads, op.head_size
                struct.window, struct.scale = op.window or 0, op.scale
                struct.soft_cap = op.soft_cap or 0.0
            case ops.SoftCap():
                struct.soft_cap = op.cap
            case ops.LayerEnd():
                struct.layer = op.layer
        return struct

    def _weight(self, weight: Tensor | PackedWeight) -> int:
        """The address of a packed weight's struct; a weight used twice is packed once."""
        packed = self._packed.get(id(weight))
        if packed is None:
            packed = weight if isinstance(weight, PackedWeight) else _packed_floats(weight)
            self._packed[id(weight)] = packed
            self._kept.append(weight)
        struct = packed.struct()
        self._kept.append(struct)
        return ctypes.addressof(struct)

    def _vector(self, vector: Tensor | None) -> int | None:
        if vector is None:
            return None
        dense = vector.detach().float().contiguous()
        self._kept.append(dense)
        return dense.data_ptr()

    def _scratch_bytes(self) -> int:
        widest = max(packed.in_features for packed in self._packed.values())
        size: int = library().pl_scratch_bytes(widest, 32)
        return size

    def _reserve(self, rows: int, logit_rows: int) -> None:
        """Give every register room for so many rows."""
        if rows <= self._capacity[0] and logit_rows <= self._capacity[1]:
            return
        self._capacity = max(rows, self._capacity[0]), max(logit_rows, self._capacity[1])
        self._registers = [torch.empty(self._capacity[flag], width) for flag, width in self._widths]
        structs = [RegisterStruct(r.data_ptr(), r.shape[1]) for r in self._registers]
        self._register_structs = (RegisterStruct * len(structs))(*structs)

    def _pass(
        self, batch: Batch, kv: KVTensors, hidden: dict[int, Tensor]
    ) -> tuple[PassStruct, list[Any]]:
        """The pass as a struct, and what must outlive the call."""
        parents = [(ctypes.c_int32 * s.rows)(*s.parents) for s in batch.segments]
        segments = (SegmentStruct * len(parents))(
            *(
                SegmentStruct(
                    segment.start,
                    segment.rows,
                    address(segment.context_slots),
                    len(segment.context_slots),
                    ctypes.addressof(own),
                )
                for segment, own in zip(batch.segments, parents, strict=True)
            )
        )
        layers = max(self._hidden_widths, default=-1) + 1
        wanted = (ctypes.c_void_p * layers)()
        for layer, tensor in hidden.items():
            wanted[layer] = tensor.data_ptr()
        arguments = PassStruct(
            ids=address(batch.ids),
            positions=address(batch.positions),
            slots=address(batch.slots),
            logit_rows=address(batch.logit_rows),
            rows=len(batch.ids),
            logit_row_count=len(batch.logit_rows),
            segments=ctypes.addressof(segments),
            segment_count=len(segments),
            kv_type=KV_TYPES[kv.keys.dtype],
            keys=kv.keys.data_ptr(),
            values=kv.values.data_ptr(),
            key_scales=None if kv.key_scales is None else kv.key_scales.data_ptr(),
            value_scales=None if kv.value_scales is None else kv.value_scales.data_ptr(),
            slot_count=kv.keys.shape[1],
            hidden=ctypes.addressof(wanted) if hidden else None,
            scratch=self._scratch.data_ptr(),
            scratch_bytes=len(self._scratch),
        )
        return arguments, [parents, segments, wanted]


def _packed_floats(weight: Tensor) -> PackedWeight:
    if weight.dtype not in FLOATS or not weight.is_cpu:
        raise UnsupportedModelError(f"There is no native kernel for {weight.dtype} weights.")
    source = weight.detach().contiguous().view(torch.uint8).flatten().numpy()
    out_features, in_features = weight.shape
    return pack(FLOATS[weight.dtype], out_features, in_features, source)


def _check_batch(batch: Batch, program: ops.Program, kv: KVTensors) -> None:
    slot_count = _check_kv(kv, program)
    rows = len(batch.ids)
    _check_indices(batch.ids, rows, _table_rows(program, ops.Embed), "ids")
    _check_indices(batch.positions, rows, _table_rows(program, ops.EmbedPosition), "positions")
    _check_indices(batch.slots, rows, slot_count, "slots")
    _check_indices(batch.logit_rows, len(batch.logit_rows), rows, "logit_rows")
    layers = range(len(program.attends))
    for layer in batch.hidden_layers:
        if layer not in layers:
            raise ConfigError(f"There is no layer {layer}; the model has 0 .. {layers.stop - 1}.")
    if list(_rows_of(batch.segments)) != list(range(rows)) or not rows:
        raise ValueError("The segments of a pass must hold each of its rows once, in order.")
    for segment in batch.segments:
        slots = segment.context_slots
        _check_indices(slots, len(slots), slot_count, "context_slots")
        if any(not -1 <= parent < row for row, parent in enumerate(segment.parents)):
            raise ValueError("A row's parent must be a row before it in its segment, or -1.")


def _table_rows(program: ops.Program, kind: type[ops.Embed | ops.EmbedPosition]) -> int:
    """The least rows of such tables."""
    return min((op.table.shape[0] for op in program.ops if isinstance(op, kind)), default=2**31)


def _rows_of(segments: tuple[Segment, ...]) -> Iterator[int]:
    for segment in segments:
        yield from range(segment.start, segment.start + segment.rows)


def _check_kv(kv: KVTensors, program: ops.Program) -> int:
    first = program.attends[0]
    sizes = {(op.num_kv_heads, op.head_size) for op in program.attends}
    least = max(op.layer for op in program.attends) + 1
    layers = max(least, kv.keys.shape[0])  # a program of some layers runs on the cache of all
    wanted = layers, kv.keys.shape[1], first.num_kv_heads, first.head_size
    for tensor in (kv.keys, kv.values):
        fits = tensor.shape == wanted and len(sizes) == 1 and tensor.dtype == kv.keys.dtype
        if not fits or not tensor.is_contiguous() or tensor.dtype not in KV_TYPES:
            raise ValueError(f"Keys and values must be dense [L, S, G, D] = {list(wanted)}.")
    scaled = kv.keys.dtype == torch.int8
    for scales in (kv.key_scales, kv.value_scales) if scaled else ():
        if scales is None or scales.shape != wanted[:3] or scales.dtype != torch.float32:
            raise ValueError(
                f"Scales of int8 keys and values must be [L, S, G] = {list(wanted[:3])}."
            )
        if not scales.is_contiguous():
            raise ValueError("Scales of keys and values must be dense.")
    return wanted[1]


def address(numbers: Numbers) -> int:
    """Where the first number lies."""
    pointer: int = numbers.__array_interface__["data"][0]
    return pointer


def _check_indices(indices: Numbers, count: int, bound: int, what: str) -> None:
    if indices.dtype != np.int64 or indices.shape != (count,) or not indices.flags.c_contiguous:
        raise ValueError(f"{what} must be a dense int64 vector of {count}.")
    if count and (int(indices.min()) < 0 or int(indices.max()) >= bound):
        raise ValueError(f"One of {what} lies outside 0 .. {bound - 1}.")
