"""Log-probabilities in OpenAI's two forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.models import Tokenizer
from paceline.types import TokenLogprobs

LEAST = -9999.0
"""OpenAI's word for a probability of zero, which JSON has no logarithm of."""


def name_of(tokenizer: Tokenizer, token: int) -> str:
    """A token as text; bytes that are no UTF-8 are U+FFFD."""
    return tokenizer.token_bytes(token).decode(errors="replace")


def chat_entries(tokenizer: Tokenizer, told: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """One entry a token, as chat completions have them."""
    return [
        _entry(tokenizer, own.token, own.logprob)
        | {"top_logprobs": [_entry(tokenizer, token, value) for token, value in own.top]}
        for own in told
    ]


def _entry(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    return {
        "token": raw.decode(errors="replace"),
        "logprob": max(LEAST, logprob),
        "bytes": list(raw),
    }


class TextLogprobs:
    """Collects tokens and their values as completions have them: four parallel lists."""

    def __init__(self, tokenizer: Tokenizer, offset: int = 0) -> None:
        """`offset` is where in the reply's text the first token begins."""
        self._tokenizer, self._offset = tokenizer, offset
        self.lists: dict[str, list[Any]] = {
            "tokens": [],
            "token_logprobs": [],
            "top_logprobs": [],
            "text_offset": [],
        }

    def add(self, token: int, text: str, told: TokenLogprobs | None) -> None:
        """Append a token whose part of the text is `text`; nothing foretold it if none is told."""
        self.lists["tokens"].append(name_of(self._tokenizer, token))
        self.lists["text_offset"].append(self._offset)
        self.lists["token_logprobs"].append(max(LEAST, told.logprob) if told else None)
        self.lists["top_logprobs"].append(self._top(told) if told else None)
        self._offset += len(text)

    def _top(self, told: TokenLogprobs) -> dict[str, float]:
        """The likeliest, and the token itself; of ids that read alike the likelier counts."""
        top: dict[str, float] = {}
        for token, logprob in (*told.top, (told.token, told.logprob)):
            top.setdefault(name_of(self._tokenizer, token), max(LEAST, logprob))
        return top
