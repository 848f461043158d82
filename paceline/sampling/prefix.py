"""What stands before a position: the request's tokens, and the drafted path to the node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.sampling.grammar import Matcher

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SettingIds:
    """What a request's settings mean in the model's own ids."""

    ends: tuple[int, ...] = ()
    """Ids that end the output: those of the model, unless it ignores them, and its own."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Each a sequence of ids that may not come about."""
    thinking: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """What opens and what closes a thought."""


class LiveCounts:
    """How often each id occurs in a list from some index on; the list may grow at any time."""

    def __init__(self, tokens: Sequence[int], start: int) -> None:
        self._tokens, self._counted = tokens, start
        self._index: dict[int, int] = {}
        self._counts: list[int] = []
        self._arrays = _array(()), _array(())

    def _catch_up(self) -> None:
        new = self._tokens[self._counted :]
        for token in new:
            at = self._index.setdefault(token, len(self._index))
            if at == len(self._counts):
                self._counts.append(0)
            self._counts[at] += 1
        if new:
            self._counted += len(new)
            self._arrays = _array(self._index), _array(self._counts)

    def with_path(self, path: Sequence[int]) -> tuple[Ids, Ids]:
        """ids[U], distinct, and counts[U] of the tokens with `path` behind them."""
        self._catch_up()
        ids, counts = self._arrays
        if not path:
            return ids, counts
        counts, more = counts.copy(), dict[int, int]()
        for token in path:
            if token in self._index:
                counts[self._index[token]] += 1
            else:
                more[token] = more.get(token, 0) + 1
        return np.append(ids, _array(more)), np.append(counts, _array(more.values()))


class History:
    """A request's committed tokens. `tokens` is the live list: it grows, here nothing is copied."""

    def __init__(
        self,
        tokens: Sequence[int],
        prompt_tokens: int,
        ids: SettingIds | None = None,
        matcher: Matcher | None = None,
    ) -> None:
        self.matcher = matcher
        """Where the output stands in its grammar, if it has one; the engine advances it."""
        self.tokens, self.prompt_tokens = tokens, prompt_tokens
        self.ids = ids or SettingIds()
        self._output_counts = LiveCounts(tokens, prompt_tokens)
        self._all_counts = LiveCounts(tokens, 0)

    def output_counts(self, path: Sequence[int] = ()) -> tuple[Ids, Ids]:
        """ids[U] and counts[U] of the output with `path` behind it."""
        return self._output_counts.with_path(path)

    def all_counts(self, path: Sequence[int] = ()) -> tuple[Ids, Ids]:
        """ids[U] and counts[U] of prompt and output with `path` behind them."""
        return self._all_counts.with_path(path)


@dataclass(frozen=True, slots=True)
class Prefix:
    """All that comes before one position: committed tokens, then the path to a drafted node."""

    history: History
    path: tuple[int, ...] = ()

    @property
    def output_tokens(self) -> int:
        """Tokens of the output before the position."""
        return len(self.history.tokens) - self.history.prompt_tokens + len(self.path)

    @property
    def output(self) -> list[int]:
        """The output before the position."""
        return [*self.history.tokens[self.history.prompt_tokens :], *self.path]

    def ends_with(self, wanted: Sequence[int]) -> bool:
        """Whether the output before the position ends with these ids."""
        missing = len(wanted) - len(self.path)
        if missing <= 0:
            return self.path[len(self.path) - len(wanted) :] == tuple(wanted)
        if len(wanted) > self.output_tokens:
            return False
        tail = self.history.tokens[len(self.history.tokens) - missing :]
        return (*tail, *self.path) == tuple(wanted)

    def thought_tokens(self) -> int | None:
        """Tokens since a thought was opened, in prompt or output; None where none is open.

        What opens it once more does not make it a new one.
        """
        opening, closing = self.history.ids.thinking
        tokens = [*self.history.tokens, *self.path]
        closed = last_end(tokens, closing) or 0
        opened = first_end(tokens, opening, closed)
        return None if opened is None else len(tokens) - opened


def last_end(tokens: Sequence[int], wanted: Sequence[int]) -> int | None:
    """The index behind the last occurrence of `wanted`; None without one."""
    size = len(wanted)
    for end in range(len(tokens), size - 1, -1) if size else ():
        if tokens[end - 1] == wanted[-1] and tuple(tokens[end - size : end]) == tuple(wanted):
            return end
    return None


def first_end(tokens: Sequence[int], wanted: Sequence[int], start: int) -> int | None:
    """The index behind the first occurrence of `wanted` from `start` on; None without one."""
    size = len(wanted)
    for end in range(start + size, len(tokens) + 1) if size else ():
        if tokens[end - 1] == wanted[-1] and tuple(tokens[end - size : end]) == tuple(wanted):
            return end
    return None


def _array(values: Iterable[int]) -> Ids:
    return np.fromiter(values, np.int64)
