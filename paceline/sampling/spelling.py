"""A tokenizer as the grammar library reads it: the bytes of each id, and text to ids."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from paceline.errors import RequestError

if TYPE_CHECKING:
    from llguidance import LLTokenizer


class TextIds(Protocol):
    """What a grammar must know of a tokenizer."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are no text."""

    def token_bytes(self, i: int) -> bytes:
        """The bytes of an id's text, or of a special id's name; empty for an id without a name."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text in which nothing is special."""


def library() -> Any:
    """The module llguidance, which is imported when the first request needs it.

    Raises:
        RequestError: it is not installed.
    """
    try:
        return importlib.import_module("llguidance")
    except ImportError as error:
        raise RequestError(
            "Structured output needs the package llguidance; pip install 'paceline[structured]'."
        ) from error


class Spelling:
    """Every id of a model's vocabulary in bytes: llguidance asks it for the ids of a forced text.

    Ids without a name are in no mask: neither those between names nor the rows that pad the
    model's logits.
    """

    def __init__(self, tokenizer: TextIds, vocab_size: int, eos_ids: Iterable[int]) -> None:
        """Spell ids 0 .. vocab_size - 1 (V, the rows of the model's logits).

        Raises:
            RequestError: the model names no id that ends a text, or llguidance is missing.
        """
        self.eos_ids = frozenset(i for i in eos_ids if i < vocab_size)
        if not self.eos_ids:
            raise RequestError(
                "Structured output needs an id that ends a text, and this model names none."
            )
        self.tokens = [tokenizer.token_bytes(i) for i in range(vocab_size)]
        special = tokenizer.special_ids | self.eos_ids
        self.special_token_ids = sorted(i for i in special if i < vocab_size and self.tokens[i])
        self.eos_token_id, self.bos_token_id = min(self.eos_ids), None
        self.only_eos = torch.zeros(vocab_size, dtype=torch.bool)
        """mask[V] that allows nothing but the end."""
        self.only_eos[sorted(self.eos_ids)] = True
        self.named = torch.tensor([bool(token) for token in self.tokens]) | self.only_eos
        """mask[V] of the ids that an output may hold at all."""
        self._encode, self._special = tokenizer.encode, special
        # Only the first id of a forced text is used; eight pieces decide it, and bound the work.
        self._window = 8 * max(map(len, self.tokens))
        self.library_tokenizer = self._build()
        self._greedy: Callable[[str], list[int]] = self.library_tokenizer.greedy_tokenize

    def unpack(self, bits: bytes) -> Tensor:
        """mask[V] from one bit an id."""
        flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        return torch.from_numpy(flags[: len(self.tokens)].view(np.bool_))

    def __call__(self, text: str) -> list[int]:
        """The ids that spell the head of `text` exactly: the tokenizer's own wherever they do.

        A tokenizer may normalise, or begin a text with a blank; its ids would break the grammar.
        """
        head = text[: self._window]
        ids = self._encode(head)
        if self._special.isdisjoint(ids) and max(ids, default=0) < len(self.tokens):
            spelled = b"".join(self.tokens[i] for i in ids)
            if spelled == head.encode():
                return ids
        return self._greedy(head)

    def _build(self) -> LLTokenizer:
        wrapper = library().TokenizerWrapper(self)
        built: LLTokenizer = library().LLTokenizer(wrapper, eos_token=sorted(self.eos_ids))
        return built
