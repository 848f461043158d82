"""What is asked of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.errors import RequestError
from paceline.types.sampling import SamplingParams
from paceline.values import conform_fields


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """What one request asks of speculation; None leaves it to the engine."""

    drafter: str | None = None
    """A name loaded at start, or "none"."""
    k: int | None = None
    rule: str | None = None
    prediction: str | tuple[int, ...] = ()
    """A guess of the output, text or ids; the drafter that follows it is then the default."""

    def __post_init__(self) -> None:
        """Check the types and the range of k."""
        conform_fields(self, RequestError)
        if self.k is not None and self.k < 0:
            raise RequestError(f"k must be >= 0, not {self.k}.")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One prompt to continue."""

    id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    speculation: Speculation = field(default_factory=Speculation)
    choice: int = 0
    """The index among several samples of one prompt; part of every key."""
    owner: str = ""
    """Whose request it is: what a drafter remembers of it serves the same owner's alone."""
