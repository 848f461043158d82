"""Suffix decoding: propose what followed the longest known suffix, often enough.

The idea of SuffixDecoding (Oliaro et al., arXiv 2411.04975): frequencies in the request's own text
and in the outputs of past requests rank the branches of a draft tree. They are no law that anything
was drawn from, so every node is a point mass.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paceline.drafters.automaton import BREAK, WIDTH, SuffixAutomaton
from paceline.drafters.base import DraftContext, LiveDrafter, Needs, Observation, register
from paceline.drafters.host import Host
from paceline.errors import ConfigError
from paceline.tree import NO_DRAFT, Draft, DraftBuilder

OWNERS = 64
"""Owners whose past outputs are remembered; the one asked about longest ago is forgotten first."""


@register("suffix")
@dataclass(frozen=True)
class Suffix:
    """Options of suffix decoding.

    Raises:
        ConfigError: a value is out of its range.
    """

    k: int = 8
    """Nodes of a draft."""
    depth: int = 32
    """Longest substring that is counted, in tokens; a context is one shorter."""
    min_prob: float = 0.1
    """Least estimated probability of a node's whole path."""
    history_tokens: int = 65536
    """Output tokens of an owner's past requests that are remembered; about 500 bytes each."""
    tree: bool = True
    """Propose trees; else chains."""

    @property
    def needs(self) -> Needs:
        """A rule that verifies trees, if it may propose them."""
        return Needs(trees=self.tree)

    def __post_init__(self) -> None:
        """Check the ranges."""
        checks = (
            (self.k >= 1, "k", ">= 1"),
            (self.depth >= 2, "depth", ">= 2"),
            (0 <= self.min_prob <= 1, "min_prob", "in [0, 1]"),
            (self.history_tokens >= 0, "history_tokens", ">= 0"),
        )
        for holds, name, wanted in checks:
            if not holds:
                value = getattr(self, name)
                raise ConfigError(f"Drafter 'suffix' wants {name} {wanted}, not {value}.")

    def build(self, host: Host) -> LiveDrafter:
        """It needs nothing of the engine."""
        del host
        return LiveSuffix(self)


class LiveSuffix:
    """One automaton a request for its text, and one history an owner for past outputs."""

    def __init__(self, options: Suffix) -> None:
        self._options = options
        self._texts: dict[str, SuffixAutomaton] = {}
        self._histories: dict[str, History] = {}
        """By owner: another's text must not show, not even in what is accepted."""

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        """Trees (or chains) of at most the budget; none where nothing likely enough is known."""
        return [self._draft(ctx, budget) for ctx, budget in zip(contexts, budgets, strict=True)]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Remember the outputs of requests that finished."""
        for seen in observations:
            if seen.finished:
                output = seen.context.tokens[seen.context.prompt_tokens :]
                self._history(seen.context.owner).add(output)

    def release(self, request_id: str) -> None:
        """Drop the request's automaton."""
        self._texts.pop(request_id, None)

    def _history(self, owner: str) -> History:
        history = self._histories.pop(owner, None)
        if history is None:
            history = History(self._options.depth, self._options.history_tokens)
        self._histories[owner] = history
        if len(self._histories) > OWNERS:
            del self._histories[next(iter(self._histories))]
        return history

    def _draft(self, ctx: DraftContext, budget: int) -> Draft:
        text = self._texts.setdefault(ctx.request_id, SuffixAutomaton(self._options.depth))
        for token in ctx.tokens[len(text) :]:
            text.append(token)
        longest = self._options.depth - 1
        recent = ctx.tokens[-longest:]
        places = [(text, *text.repeated(longest))]
        places += [(past, *past.match(recent)) for past in self._history(ctx.owner).texts]
        width = WIDTH if self._options.tree else 1
        growths = [grow(*place, budget, self._options.min_prob, width) for place in places]
        best = max(growths, key=lambda growth: growth.expected)
        return best.build()


class History:
    """Past outputs in two automata: when the younger is full, the older is dropped for it."""

    def __init__(self, depth: int, max_tokens: int) -> None:
        self._depth, self._half = depth, max_tokens // 2
        self.texts = (SuffixAutomaton(depth), SuffixAutomaton(depth))

    def add(self, output: Sequence[int]) -> None:
        """Remember an output; of one longer than half the history, its end."""
        if not self._half:
            return
        tokens = (*output[max(len(output) - self._half + 1, 0) :], BREAK)
        if len(self.texts[0]) + len(tokens) > self._half:
            self.texts = (SuffixAutomaton(self._depth), self.texts[0])
        for token in tokens:
            self.texts[0].append(token)


@dataclass(frozen=True)
class Growth:
    """A draft tree as (parent row, token) by node, and its expected number of accepted tokens."""

    nodes: tuple[tuple[int, int], ...]
    expected: float

    def build(self) -> Draft:
        """The draft of point masses; siblings are tried in the order in which they grew."""
        if not self.nodes:
            return NO_DRAFT
        builder = DraftBuilder()
        for parent, token in self.nodes:
            builder.point(parent, token)
        return builder.build()


class Branch(NamedTuple):
    """A node that a growing tree may take next; the likeliest sorts first, then the earliest."""

    cost: float
    """Minus the estimated probability of its path."""
    serial: int
    parent: int
    token: int
    state: int
    depth: int
    frequency: float
    """Product of the frequencies on its path."""


def grow(
    text: SuffixAutomaton, state: int, matched: int, budget: int, min_prob: float, width: int
) -> Growth:
    """Grow a tree below a match of `matched` tokens, the likeliest path first.

    A path is estimated at the product of its frequencies times m / (m + j) for j tokens after a
    match of m: the longer the match, the further it is trusted. So min_prob bounds the depth by
    m (1 / min_prob - 1), which is SuffixDecoding's MAX_SPEC = alpha p. A node has at most `width`
    children.
    """
    nodes: list[tuple[int, int]] = []
    heap: list[Branch] = []
    serial = itertools.count()
    best = Branch(0.0, next(serial), 0, 0, state, 0, 1.0)
    expected = 0.0
    while len(nodes) < budget:
        depth = best.depth + 1
        for token, after, share in text.followers(best.state, width):
            frequency = best.frequency * share
            estimate = frequency * matched / (matched + depth)
            if estimate >= min_prob:
                parent = len(nodes)
                branch = Branch(-estimate, next(serial), parent, token, after, depth, frequency)
                heapq.heappush(heap, branch)
        if not heap:
            break
        best = heapq.heappop(heap)
        nodes.append((best.parent, best.token))
        expected -= best.cost
    return Growth(tuple(nodes), expected)
