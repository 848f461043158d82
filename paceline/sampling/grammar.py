"""Structured output: which ids a grammar allows next, at every node of a draft.

The grammar's part in the law is a mask: ids it forbids have no mass, before anything else is
applied (vLLM's order). A mask is a function of the grammar and of the tokens since the output
began, so it is the same however they were reached: by decoding, by drafting or after preemption.
Where the grammar leaves one text, the mask allows that text's own tokenisation alone, as in vLLM
with the same library (llguidance, https://github.com/guidance-ai/llguidance).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor

from paceline.errors import RequestError
from paceline.sampling.grammar_text import grammar_text, unusable
from paceline.sampling.spelling import Spelling, TextIds, library
from paceline.structured import StructuredOutput

if TYPE_CHECKING:
    from llguidance import LLMatcher

T = TypeVar("T")

_KEPT = 32
"""Compiled grammars an engine keeps."""
_STACK_BYTES = 256 << 20
"""The library recurses through a grammar's rules; as many as fit into a request need this much."""
_compiling = threading.Lock()


class Tree(Protocol):
    """Drafted tokens under the last committed one; paceline.tree.TokenTree is one."""

    def __len__(self) -> int: ...

    def path_tokens(self, row: int) -> tuple[int, ...]:
        """The tokens from below the root to `row`."""


class Grammars:
    """The grammars of one engine: each distinct StructuredOutput is compiled once."""

    def __init__(
        self, tokenizer: TextIds, vocab_size: int, eos_ids: Iterable[int], kept: int = _KEPT
    ) -> None:
        """Nothing is built before the first request; vocab_size is V, the rows of the logits."""
        self._spelling = lru_cache(1)(lambda: Spelling(tokenizer, vocab_size, eos_ids))
        self._compile = lru_cache(kept)(lambda spec: Grammar(spec, self._spelling()))

    def compile(self, spec: StructuredOutput) -> Grammar:
        """The grammar, ready to start matchers.

        Raises:
            RequestError: it is malformed, matches nothing, or exceeds the library's limits; or
                llguidance is missing, or the model has no id that ends a text.
        """
        return self._compile(spec)


class Grammar:
    """One compiled grammar over one vocabulary; shared by all requests that ask for it."""

    def __init__(self, spec: StructuredOutput, spelling: Spelling) -> None:
        """Compile; raises RequestError as `Grammars.compile` does."""
        self.spelling = spelling
        text = grammar_text(spec)
        start = with_deep_stack(lambda: self._start(text))
        if start.is_error():
            empty = start.get_error().startswith("NoExtension")
            raise unusable(spec, "it matches no text" if empty else start.get_error())
        self._pristine = start

    def matcher(self, history: Iterable[int] = ()) -> Matcher:
        """The state of a request whose output begins with `history`.

        Raises:
            RequestError: the grammar does not allow it.
        """
        matcher = Matcher(self.spelling, self._pristine.deep_copy())
        matcher.advance(history)
        return matcher

    def _start(self, text: str) -> LLMatcher:
        """A matcher at the beginning; its first mask betrays a grammar that matches nothing."""
        tokenizer = self.spelling.library_tokenizer
        limits = library().LLParserLimits(verbose_errors=False)
        matcher: LLMatcher = library().LLMatcher(tokenizer, text, log_level=0, limits=limits)
        if not matcher.is_error():
            matcher.compute_bitmask()
        return matcher


class Matcher:
    """Where one request stands in its grammar.

    Drafts are looked at, never taken over: only `advance` moves what is committed. Masks are kept
    until then, so a drafter and the target that ask for one node pay for it once.
    """

    def __init__(self, spelling: Spelling, state: LLMatcher) -> None:
        """`state` is the matcher's own, at the beginning."""
        self._spelling, self._state = spelling, state
        self._eos_ids = spelling.eos_ids
        self._ended = False
        self._ahead = state
        """Where a draft was followed to: a copy that took `_drafted` too, if that is not empty."""
        self._drafted: tuple[int, ...] = ()
        self._masks: dict[tuple[int, ...], Tensor] = {}

    @property
    def finished(self) -> bool:
        """Whether nothing but the end of the text is allowed."""
        return not (self.mask_for(()) & ~self._spelling.only_eos).any()

    def mask_for(self, path: Sequence[int]) -> Tensor:
        """mask[V] of the ids allowed after the committed tokens and those of `path`; read only.

        After an end of text, and below a token that is not allowed itself, nothing can be
        committed; there the mask allows the end alone, so that every row has a law.

        Raises:
            RequestError: the grammar reached a limit of the library; the request cannot go on.
        """
        path = tuple(path)
        for length in range(len(path) + 1):
            head = path[:length]
            if head not in self._masks:
                self._masks[head] = self._compute(head)
        return self._masks[path]

    def masks(self, tree: Tree) -> Tensor:
        """mask[len(tree) + 1, V]: row by row as `mask_for`; raises as it does."""
        paths = [tree.path_tokens(row) for row in range(len(tree) + 1)]
        for path in sorted(paths):  # depth first: a branch costs one copy
            self.mask_for(path)
        return torch.stack([self._masks[path] for path in paths])

    def allows(self, path: Sequence[int], token: int) -> bool:
        """Whether `token` may follow the committed tokens and `path`; raises as `mask_for`."""
        return bool(self.mask_for(path)[token])

    def advance(self, tokens: Iterable[int]) -> None:
        """Commit tokens; those after an end of text do not count.

        Raises:
            RequestError: the grammar refuses one; the matcher is of no use any more.
        """
        path = tuple(tokens)
        ends = [at for at, token in enumerate(path) if token in self._eos_ids]
        text = path[: ends[0]] if ends else path
        if text and self._ended:
            raise RequestError("The structured output has ended; nothing can follow it.")
        if self._drafted and text[: len(self._drafted)] == self._drafted:
            self._state, text = self._ahead, text[len(self._drafted) :]
        consume(self._state, text)
        self._ended = self._ended or bool(ends)
        self._drafted = ()
        self._masks.clear()

    def forced(self, limit: int) -> tuple[int, ...]:
        """The next tokens, at most `limit`, as far as the grammar leaves no choice."""
        path: tuple[int, ...] = ()
        while len(path) < limit and not self._ended:
            (allowed,) = self.mask_for(path).nonzero(as_tuple=True)
            if len(allowed) != 1 or (path and path[-1] in self._eos_ids):
                break
            path = (*path, int(allowed[0]))
        return path

    def _compute(self, path: tuple[int, ...]) -> Tensor:
        """The mask after `path`, whose shorter heads have theirs."""
        if self._ended or (path and not self._continues(path[:-1], path[-1])):
            return self._spelling.only_eos
        state = self._state_at(path)
        bits = state.compute_bitmask()
        check(state)
        return self._spelling.unpack(bits) & self._spelling.named

    def _continues(self, path: tuple[int, ...], token: int) -> bool:
        return token not in self._eos_ids and bool(self._masks[path][token])

    def _state_at(self, path: tuple[int, ...]) -> LLMatcher:
        """The state after `path`: the one ahead where that can go on to it, else a new copy.

        States are never rolled back: llguidance 1.9 keeps its last mask by the number of the
        parser's row, so after a rollback it may hand out the mask of another branch.
        """
        if not path:
            return self._state
        if not self._drafted or path[: len(self._drafted)] != self._drafted:
            self._ahead, self._drafted = self._state.deep_copy(), ()
        behind, self._drafted = path[len(self._drafted) :], ()  # until it has taken them
        consume(self._ahead, behind)
        self._drafted = path
        return self._ahead


def consume(state: LLMatcher, tokens: Sequence[int]) -> None:
    """Move a state on; raises RequestError where the grammar refuses a token."""
    state.consume_tokens(list(tokens))
    check(state)


def check(state: LLMatcher) -> None:
    """Raise what the library keeps to itself."""
    if state.is_error():
        reason = state.get_error().splitlines()[0].rstrip(".")
        raise RequestError(f"The structured output cannot go on: {reason}.")


def with_deep_stack(call: Callable[[], T]) -> T:
    """Run `call` where deep recursion in native code cannot overflow the stack."""
    with _compiling, ThreadPoolExecutor(1) as pool:
        usual = threading.stack_size(_STACK_BYTES)  # a setting of the whole process
        try:
            result = pool.submit(call)
        finally:
            threading.stack_size(usual)
        return result.result()
