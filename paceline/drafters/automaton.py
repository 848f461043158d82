"""A suffix automaton that grows token by token and counts what followed what.

Blumer et al. 1985: each state stands for the substrings that end at the same places, so a text of
n tokens has at most 2n states and an appended token costs amortised O(1). Counts are kept for the
substrings of at most `depth` tokens, which costs at most `depth` increments a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

ROOT = 0
WIDTH = 4
"""How many of a state's followers are kept ranked; without it a frequent token means a scan."""
BREAK = -1
"""A token between two texts: it follows others, but is never ranked."""


class SuffixAutomaton:
    """Lists by state: what it is, how often it occurred, and what came next.

    `length[s]` is that of the state's longest substring, `link[s]` the state of its longest suffix
    elsewhere; so the shortest substring of s has length[link[s]] + 1 tokens.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.length, self.link = [0], [-1]
        self.next: list[dict[int, int]] = [{}]
        self.count = [0]
        """Occurrences of the state's substrings, if the shortest has at most `depth` tokens."""
        self.followed = [0]
        """Occurrences that were followed by a token, if the shortest has fewer than `depth`."""
        self.ranked: list[tuple[int, ...]] = [()]
        """The likeliest followers: by count, then the latest first."""
        self._last = ROOT
        self._counted = ROOT
        """The state of the text's last `depth` tokens."""

    def __len__(self) -> int:
        """Tokens of the text."""
        return self.length[self._last]

    def shortest(self, state: int) -> int:
        """Length of the state's shortest substring; 0 for the root."""
        return self.length[self.link[state]] + 1 if state else 0

    def match(self, tokens: Sequence[int]) -> tuple[int, int]:
        """The longest suffix of `tokens` that the text holds: its state and its length."""
        state, length = ROOT, 0
        for token in tokens:
            while state and token not in self.next[state]:
                state = self.link[state]
                length = self.length[state]
            if token in self.next[state]:
                state, length = self.next[state][token], length + 1
        return state, length

    def repeated(self, longest: int) -> tuple[int, int]:
        """The text's longest suffix that also occurs before its end, as `match` gives it.

        It may be that of a longer one's state; a length of at most `longest` is reported.
        """
        state = self._counted
        if state == self._last:
            state = max(self.link[state], ROOT)
        while self.shortest(state) > longest:
            state = self.link[state]
        return state, min(self.length[state], longest)

    def followers(self, state: int, width: int) -> list[tuple[int, int, float]]:
        """The `width` likeliest next tokens: token, the state after it, its frequency.

        A state that nothing followed yet, or whose shortest substring has `depth` tokens, gives
        way to its longest suffix that is better known: so a period is drafted past the text's end.
        """
        while state and not (self.followed[state] and self.shortest(state) < self.depth):
            state = self.link[state]
        following, total = self.next[state], self.followed[state]
        return [
            (t, after := following[t], self.count[after] / total)
            for t in self.ranked[state][:width]
        ]

    def append(self, token: int) -> None:
        """Grow the text by one token."""
        self._extend(token)
        before = self._counted
        after = self.next[before][token]
        while self.shortest(after) > self.depth:
            after = self.link[after]
        for state in self._suffixes(after):
            self.count[state] += 1
        for state in self._suffixes(before):
            if self.shortest(state) < self.depth:
                self.followed[state] += 1
                if token != BREAK:
                    self._rank(state, token)
        self._counted = after

    def _suffixes(self, state: int) -> Iterator[int]:
        """The state and those of its suffixes, without the root."""
        while state:
            yield state
            state = self.link[state]

    def _rank(self, state: int, token: int) -> None:
        """Put a token that just followed once more before those that followed no oftener."""
        ranked = self.ranked[state]
        if not ranked or ranked[0] == token:
            self.ranked[state] = ranked or (token,)
            return
        following, count = self.next[state], self.count
        others = [t for t in ranked if t != token]
        reached = count[following[token]]
        place = sum(count[following[t]] > reached for t in others)
        self.ranked[state] = (*others[:place], token, *others[place:])[:WIDTH]

    def _extend(self, token: int) -> None:
        """Add the states and transitions of the longer text."""
        new = self._add(self.length[self._last] + 1, {})
        state, self._last = self._last, new
        while state >= 0 and token not in self.next[state]:
            self.next[state][token] = new
            state = self.link[state]
        if state < 0:
            self.link[new] = ROOT
            return
        target = self.next[state][token]
        if self.length[target] > self.length[state] + 1:
            target = self._split(target, state, token)
        self.link[new] = target

    def _split(self, target: int, state: int, token: int) -> int:
        """Part the shorter substrings of `target`, which now end at one place more, from it."""
        shorter = self._add(self.length[state] + 1, dict(self.next[target]))
        for column in (self.link, self.count, self.followed):
            column[shorter] = column[target]
        self.ranked[shorter] = self.ranked[target]
        self.link[target] = shorter
        while state >= 0 and self.next[state].get(token) == target:
            self.next[state][token] = shorter
            state = self.link[state]
        return shorter

    def _add(self, length: int, following: dict[int, int]) -> int:
        self.length.append(length)
        self.next.append(following)
        self.ranked.append(())
        for column in (self.link, self.count, self.followed):
            column.append(0)
        return len(self.length) - 1
