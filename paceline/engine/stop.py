"""A request's text as it grows, and the conditions that end it; both advance token by token."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from paceline.models import TextStream, Tokenizer
from paceline.types import SamplingParams, Span


class OutputText:
    """Turns committed ids into text, ends it before a stop string, and says what may be shown.

    A tail that could still become a stop string is held back from `take`.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]) -> None:
        self._stream: TextStream = tokenizer.stream()
        self._stop = tuple(stop)
        self._longest = max(map(len, self._stop), default=0)
        self.text = ""
        self._searched = 0
        """Where stop strings are looked for from."""
        self._shown = 0
        self._spans: deque[tuple[int, bool]] = deque()
        """(end in text, drafted) of pieces that are not wholly shown."""

    def push(self, token: int, drafted: bool, may_stop: bool = True) -> bool:
        """Append a token; True if its text completes a stop string, before which the text ends.

        Text that came while it might not stop is never part of a stop string.
        """
        stopped = self._extend(self._stream.push(token), drafted, may_stop)
        if stopped:
            self._longest = 0
        return stopped

    def finish(self) -> bool:
        """Append what the stream still held; True as for `push`. Nothing is held back after."""
        stopped = self._extend(self._stream.flush(), False, True)
        self._longest = 0
        return stopped

    def take(self) -> tuple[Span, ...]:
        """The text that became showable since the last call, by where it came from."""
        end = len(self.text) - max(0, self._longest - 1)
        spans = []
        while self._spans and self._shown < end:
            edge, drafted = self._spans[0]
            stop = min(edge, end)
            if stop > self._shown:
                spans.append(Span(self.text[self._shown : stop], drafted))
                self._shown = stop
            if edge <= end:
                self._spans.popleft()
        return tuple(spans)

    def _extend(self, piece: str, drafted: bool, may_stop: bool) -> bool:
        start = max(self._searched, len(self.text) - self._longest + 1)
        self.text += piece
        self._spans.append((len(self.text), drafted))
        if not may_stop:
            self._searched = len(self.text)
            return False
        found = [at for at in (self.text.find(s, start) for s in self._stop) if at >= 0]
        if found:
            self.text = self.text[: min(found)]
        return bool(found)


def ends(token: int, params: SamplingParams, eos_ids: frozenset[int]) -> bool:
    """Whether the token itself ends the output."""
    return token in params.stop_token_ids or (token in eos_ids and not params.ignore_eos)
