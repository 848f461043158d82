"""Every error Paceline raises on purpose.

PacelineError
├── ConfigError           an option, setting or option string that is wrong or unknown
│   └── UnknownNameError  a name that no registry or alias table holds
├── RequestError          one request that cannot run: empty or too long prompt, bad sampling value
├── ModelError            a model that cannot be used
│   ├── ModelFileError    a damaged, truncated or hostile file; names the file and the field
│   ├── UnsupportedModelError  an architecture or quantisation without an implementation
│   └── VocabularyError   a draft whose ids do not mean what the target's mean
├── DownloadError         a pull that failed, or whose hash differs
├── EndpointError         a server to audit that cannot be: unreachable, closed, of another kind
├── EngineError           a pass that failed: the requests in it are lost, the engine goes on
└── CacheError            the block pool's books do not balance: a fault of the engine

Messages are one sentence that names the thing and the mend.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class PacelineError(Exception):
    """Base of all errors raised on purpose."""


class ConfigError(PacelineError, ValueError):
    """An option or setting is wrong."""


class UnknownNameError(ConfigError):
    """A name that nothing is registered under."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}."
        super().__init__(f"Unknown {kind} '{name}'; {hint}")


class RequestError(PacelineError, ValueError):
    """One request cannot run."""


class ModelError(PacelineError):
    """A model cannot be used."""


class ModelFileError(ModelError):
    """A model file is damaged, truncated or hostile."""

    def __init__(self, path: Path | str, field: str, problem: str) -> None:
        self.path, self.field = Path(path), field
        super().__init__(f"{path}: {field}: {problem}")


class UnsupportedModelError(ModelError):
    """There is no implementation for this architecture or quantisation."""


class VocabularyError(ModelError):
    """The draft's ids do not mean what the target's mean."""


class DownloadError(PacelineError):
    """A pull failed."""


class EndpointError(PacelineError):
    """A server cannot be audited."""


class EngineError(PacelineError):
    """A pass failed; its requests are lost."""


class CacheError(PacelineError):
    """The block pool's books do not balance."""
