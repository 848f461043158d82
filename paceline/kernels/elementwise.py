"""Operations of a program that take registers number by number."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.errors import ModelError


@dataclass(frozen=True, eq=False, kw_only=True)
class Gating:
    """out = activation(gate) · up."""

    gate: str
    up: str
    out: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.gate, self.up)

    def width(self, gate: int, up: int) -> int:
        """Width of `out`; raises ModelError where the sources differ."""
        return same_width(gate, up)


class SiluMul(Gating):
    """out = gate · sigmoid(gate) · up."""


class GeluMul(Gating):
    """out = gelu(gate) · up, by the approximation that Gelu names."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OneSource:
    """out = f(source), as wide."""

    source: str
    out: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.source,)

    def width(self, source: int) -> int:
        """Width of `out`."""
        return source


class Gelu(OneSource):
    """out = x / 2 · (1 + tanh(sqrt(2 / π) · (x + 0.044715 x³))) (arXiv 1606.08415, section 2)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftCap(OneSource):
    """out = cap · tanh(source / cap)."""

    cap: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Add:
    """out = left + right."""

    left: str
    right: str
    out: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers it reads."""
        return (self.left, self.right)

    def width(self, left: int, right: int) -> int:
        """Width of `out`; raises ModelError where the sources differ."""
        return same_width(left, right)


def same_width(width: int, wanted: int) -> int:
    """The width; raises ModelError where it is another."""
    if width != wanted:
        raise ModelError(f"a width of {width} meets one of {wanted}.")
    return width
