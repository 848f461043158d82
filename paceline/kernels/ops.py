"""A pass over a model as data: a list of operations over named registers.

A register holds one row of `width` numbers for each of the pass's T rows or, behind LogitRows, for
each of its N logit rows. An executor runs the whole list: `kernels/reference.py` one operation at
a time in torch; a native one may run it in a single call, since the list holds no Python code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from paceline.errors import ModelError
from paceline.kernels.elementwise import Add, Gelu, GeluMul, OneSource, SiluMul, SoftCap, same_width
from paceline.kernels.packed import PackedWeight

__all__ = [
    "LOGITS",
    "Add",
    "Attend",
    "Embed",
    "EmbedPosition",
    "Features",
    "Gelu",
    "GeluMul",
    "LayerEnd",
    "LayerNorm",
    "Linear",
    "LogitRows",
    "Op",
    "Program",
    "RMSNorm",
    "Rope",
    "Rotation",
    "SiluMul",
    "SoftCap",
]

Matrix = Tensor | PackedWeight

LOGITS = "logits"
"""The register that holds the pass's result."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Embed:
    """out = scale · table[ids]."""

    out: str
    table: Matrix
    """table[V, E]."""
    scale: float = 1.0
    sources: ClassVar[tuple[str, ...]] = ()

    def width(self) -> int:
        """Width of `out`."""
        return self.table.shape[1]


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbedPosition:
    """out = table[positions]."""

    out: str
    table: Tensor
    """table[positions, E]."""
    sources: ClassVar[tuple[str, ...]] = ()

    def width(self) -> int:
        """Width of `out`."""
        return self.table.shape[1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Features:
    """out = the batch's features[T, size]: numbers that come with the rows beside their ids."""

    out: str
    size: int
    sources: ClassVar[tuple[str, ...]] = ()

    def width(self) -> int:
        """Width of `out`."""
        return self.size


@dataclass(frozen=True, eq=False, kw_only=True)
class RMSNorm:
    """out = source / sqrt(mean(source²) + eps) · scale, on each of so many heads by itself."""

    source: str
    out: str
    scale: Tensor
    """scale[E / heads]."""
    eps: float
    heads: int = 1

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.source,)

    def width(self, source: int) -> int:
        """Width of `out`; raises ModelError where `source` does not fit."""
        return same_width(source, self.heads * self.scale.shape[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerNorm:
    """out = (source − mean) / sqrt(variance + eps) · scale + bias."""

    source: str
    out: str
    scale: Tensor
    """scale[E]."""
    bias: Tensor
    """bias[E]."""
    eps: float

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.source,)

    def width(self, source: int) -> int:
        """Width of `out`; raises ModelError where `source` or the bias does not fit."""
        return same_width(same_width(source, self.scale.shape[0]), self.bias.shape[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear:
    """out = source · weightᵀ + bias."""

    source: str
    out: str
    weight: Matrix
    """weight[O, I]."""
    bias: Tensor | None = None
    """bias[O]."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.source,)

    def width(self, source: int) -> int:
        """Width of `out`; raises ModelError where `source` or the bias does not fit."""
        same_width(source, self.weight.shape[1])
        if self.bias is not None:
            same_width(self.bias.shape[0], self.weight.shape[0])
        return self.weight.shape[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Rotation:
    """out = cos(position · frequencies) | sin(position · frequencies), in float32."""

    out: str
    frequencies: Tensor
    """frequencies[D / 2] float32, radians per token."""
    sources: ClassVar[tuple[str, ...]] = ()

    def width(self) -> int:
        """Width of `out`: D."""
        return 2 * self.frequencies.shape[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Rope:
    """Rotate each head's halves: (a, b) -> (a·cos − b·sin, b·cos + a·sin)."""

    source: str
    out: str
    rotation: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.source, self.rotation)

    def width(self, source: int, rotation: int) -> int:
        """Width of `out`; raises ModelError where `source` is no whole number of heads."""
        if source % rotation:
            raise ModelError(f"{source} is no multiple of the head size {rotation}.")
        return source


@dataclass(frozen=True, eq=False, kw_only=True)
class Attend:
    """Write the rows' keys and values to their slots, then attend along each row's own path.

    A score is scale · query · key, capped as soft_cap · tanh(score / soft_cap).
    """

    layer: int
    query: str
    key: str
    value: str
    out: str
    num_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    window: int | None = None
    """Keys that a row sees, the last of its path; None for all."""
    soft_cap: float | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.query, self.key, self.value)

    def width(self, query: int, key: int, value: int) -> int:
        """Width of `out`; raises ModelError where a source does not fit the heads."""
        same_width(key, self.num_kv_heads * self.head_size)
        same_width(value, self.num_kv_heads * self.head_size)
        return same_width(query, self.num_heads * self.head_size)


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerEnd:
    """`source` is the output of a layer: what Batch.hidden_layers may ask for."""

    layer: int
    source: str
    out: ClassVar[None] = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.source,)

    def width(self, source: int) -> int:
        """It writes no register."""
        return source


class LogitRows(OneSource):
    """out = the logit rows of source: [T, width] -> [N, width]."""


Op = (
    Embed | EmbedPosition | Features | RMSNorm | LayerNorm | Linear | Rotation | Rope | Attend
    | SiluMul | GeluMul | Gelu | SoftCap | Add | LayerEnd | LogitRows
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A model's whole pass.

    Raises:
        ModelError: an operation reads a register that is not written yet, mixes T rows with N
            rows, or meets a width that its weight does not take; or no `logits[N, V]` results.
    """

    ops: tuple[Op, ...]

    def __post_init__(self) -> None:
        """Run the list on widths alone."""
        per_logit_row, _ = self.registers.get(LOGITS, (False, 0))
        if not per_logit_row:
            raise ModelError("The program leaves no logits of the logit rows.")

    @cached_property
    def registers(self) -> dict[str, tuple[bool, int]]:
        """What the list leaves in each register: whether its rows are the logit rows; its width."""
        registers: dict[str, tuple[bool, int]] = {}
        for index, op in enumerate(self.ops):
            try:
                found = [registers[source] for source in op.sources]
                rows = {per_logit_row for per_logit_row, _ in found}
                if len(rows) > 1 or (isinstance(op, LogitRows) and rows != {False}):
                    raise ModelError("its sources have other rows.")
                width = op.width(*(width for _, width in found))
            except KeyError as error:
                raise ModelError(f"Operation {index}, {op}: nothing wrote {error}.") from error
            except ModelError as error:
                raise ModelError(f"Operation {index}, {type(op).__name__}: {error}") from error
            if op.out is not None:
                registers[op.out] = (isinstance(op, LogitRows) or rows == {True}, width)
        return registers

    @cached_property
    def attends(self) -> tuple[Attend, ...]:
        """Its attention operations, in order."""
        return tuple(op for op in self.ops if isinstance(op, Attend))
