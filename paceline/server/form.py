"""What the two endpoints' replies have in common: chunks, and how a whole reply is made of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from paceline.server.generation import Generation, Service
from paceline.server.pieces import Piece
from paceline.server.schemas import Sampling
from paceline.server.tokens import joined, provenance
from paceline.server.usage import usage_of

Chunk = dict[str, Any]


@dataclass
class Form(ABC):
    """Writes one generation down. Both of its ways, streamed and whole, are the same chunks."""

    service: Service
    reply_id: str
    ask: Sampling
    created: int = field(default_factory=lambda: int(time.time()), kw_only=True)

    chunk_kind: ClassVar[str]
    reply_kind: ClassVar[str]
    id_prefix: ClassVar[str]

    @abstractmethod
    def chunks(self, generation: Generation) -> AsyncIterator[Chunk]:
        """The stream's objects; the last one carries the usage, and no choices."""

    @abstractmethod
    def empty(self, index: int) -> dict[str, Any]:
        """A whole reply's choice before anything is written into it."""

    def add(self, choice: dict[str, Any], part: dict[str, Any]) -> None:
        """Write a chunk's choice into a whole reply's."""
        for key in part.keys() - {"index"}:
            choice[key] = joined(choice.get(key), part[key])

    def whole(self, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """The chunks of a stream as the one reply they make."""
        choices: dict[int, dict[str, Any]] = {}
        for part in (part for chunk in chunks for part in chunk["choices"]):
            self.add(choices.setdefault(part["index"], self.empty(part["index"])), part)
        ordered = [choices[index] for index in sorted(choices)]
        return self._head(self.reply_kind) | {"choices": ordered, "usage": chunks[-1]["usage"]}

    def chunk(self, index: int, **content: Any) -> Chunk:
        """An object of the stream with a part of one choice."""
        part = {"index": index, **content}
        part.setdefault("finish_reason", None)
        return self._head(self.chunk_kind) | {"choices": [part]}

    def usage(self, generation: Generation) -> Chunk:
        """The last object of a stream."""
        usage = usage_of(generation.requests, generation.ordered, self.service.names)
        return self._head(self.chunk_kind) | {"choices": [], "usage": usage}

    @property
    def one_by_one(self) -> bool:
        """Whether each token is an event of its own, with its provenance."""
        asked = self.ask.token_events
        return self.service.config.token_events if asked is None else asked

    def told(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Where the pieces came from, if that is wanted."""
        names = self.service.names
        return {"tokens": [provenance(p, names) for p in pieces]} if self.one_by_one else {}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"{self.id_prefix}-{self.reply_id}",
            "object": kind,
            "created": self.created,
            "model": self.service.model_name,
        }
