"""What is asked of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.errors import PacelineError, RequestError
from paceline.types.sampling import SamplingParams
from paceline.values import conform_fields

AUTO = "auto"
"""The draft length that the engine chooses anew for every step."""


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """What one request asks of speculation; None leaves it to the engine."""

    drafter: str | None = None
    """A name loaded at start, or "none"."""
    k: int | str | None = None
    """Draft length in tokens, 0 for plain decoding, or AUTO."""
    rule: str | None = None
    prediction: str | tuple[int, ...] = ()
    """A guess of the output, text or ids; the drafter that follows it is then the default."""

    def __post_init__(self) -> None:
        """Check the types and the range of k."""
        conform_fields(self, RequestError)
        check_length(self.k, RequestError)


def check_length(k: int | str | None, error: type[PacelineError]) -> None:
    """Raise `error` for what is neither AUTO nor a number of tokens."""
    if isinstance(k, str) and k != AUTO:
        raise error(f"k must be a number or '{AUTO}', not '{k}'.")
    if isinstance(k, int) and k < 0:
        raise error(f"k must be >= 0, not {k}.")


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
