"""What a model's files say of its vocabulary, beside the vocabulary itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids that open and close a text, and how a chat becomes one."""

    path: Path
    """Where this was read, for errors."""
    bos_id: int | None = None
    """The id that starts a text."""
    eos_id: int | None = None
    """The one id that templates know as the end of a text."""
    eos_ids: frozenset[int] = frozenset()
    """Every id that ends a text; holds eos_id."""
    add_bos: bool = False
    """Whether a text starts with bos_id."""
    chat_template: str | None = None
    """Jinja source, or None for a model that does not chat."""
