"""An output token by token: each with its own text, its log-probability and where it came from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from paceline.models import Tokenizer
from paceline.types import Delta, TokenLogprobs


@dataclass(frozen=True)
class Piece:
    """One output token as a client sees it."""

    token: int
    text: str
    depth: int
    """Its place in the draft it came from, the first being 1; 0: the target chose it."""
    drafter: str = ""
    """Whose draft that was."""
    logprobs: TokenLogprobs | None = None


class Pieces:
    """Cuts the deltas of one output into pieces, whose texts joined are the output's text.

    The engine holds text back that may become a stop string; a piece comes once all of its own
    text may be shown.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._stream = tokenizer.stream()
        self._held: deque[Piece] = deque()
        self._shown = ""
        """Text of the output that belongs to held pieces."""

    def push(self, delta: Delta) -> list[Piece]:
        """The pieces that became whole."""
        told = delta.logprobs or [None] * len(delta.token_ids)
        for place, (token, logprobs) in enumerate(zip(delta.token_ids, told, strict=True), 1):
            depth, drafter = (place, delta.drafter) if place <= delta.drafted else (0, "")
            self._held.append(Piece(token, self._stream.push(token), depth, drafter, logprobs))
        self._shown += delta.text
        pieces = [*self._whole()]
        if delta.finish_reason:
            pieces += self._cut()
            if self._shown and pieces:  # half a character, which the end made whole
                pieces[-1] = replace(pieces[-1], text=pieces[-1].text + self._shown)
        return pieces

    def _whole(self) -> Iterable[Piece]:
        while self._held and len(self._held[0].text) <= len(self._shown):
            piece = self._held.popleft()
            self._shown = self._shown[len(piece.text) :]
            yield piece

    def _cut(self) -> Iterable[Piece]:
        """What is left where a stop string cut the text."""
        while self._held:
            piece = self._held.popleft()
            yield replace(piece, text=self._shown[: len(piece.text)])
            self._shown = self._shown[len(piece.text) :]
