"""What both endpoints do with pieces: grouped into events, told with their provenance, joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from paceline.server.names import DrafterNames
from paceline.server.pieces import Piece


def grouped(pieces: Sequence[Piece], one_by_one: bool) -> Iterable[Sequence[Piece]]:
    """What goes into one event: a step's pieces together, or each alone."""
    if one_by_one:
        return [[piece] for piece in pieces]
    return [pieces] if pieces else []


def provenance(piece: Piece, names: DrafterNames) -> dict[str, Any]:
    """A token's id and text, and who proposed it at which depth; the target chose the others."""
    drafter = names.name_of(piece.drafter) if piece.depth else None
    return {"id": piece.token, "text": piece.text, "drafter": drafter, "depth": piece.depth}


def joined(first: Any, second: Any) -> Any:
    """Two parts of a choice as one: lists and texts one after the other, objects by field."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict):
        return {key: joined(first.get(key), second.get(key)) for key in first | second}
    first += second  # lists grow in place, or long replies would be copied once a chunk
    return first
