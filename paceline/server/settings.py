"""What a server may be asked, and by whom."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.config import require_positive
from paceline.errors import ConfigError
from paceline.values import conform_fields

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on one request and on all that wait."""

    max_queue: int = 64
    """Outputs that may wait for a place in the batch; beyond, requests get 429."""
    max_choices: int = 16
    """Outputs of one request: its prompts times n."""
    max_body_bytes: int = 4 << 20
    body_timeout_s: float = 30.0
    """How long a client may take to send a request's body."""
    request_timeout_s: float = 600.0
    """From a request's arrival to the end of its reply."""
    drain_timeout_s: float = 60.0
    """How long a stopping server waits for the replies it has begun."""

    def __post_init__(self) -> None:
        """Check the types and the ranges."""
        conform_fields(self, ConfigError)
        require_positive(self, "max_choices", "max_body_bytes")
        if self.max_queue < 0:
            raise ConfigError(f"max_queue must be >= 0, not {self.max_queue}.")
        for name in ("body_timeout_s", "request_timeout_s", "drain_timeout_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Everything a server is built from, but for the model."""

    host: str = LOOPBACK
    port: int = 8000
    """0: one that is free."""
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """Any of them opens the server; without one it is open to whoever reaches it."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may call the server; none by default."""
    model_name: str | None = None
    """What requests call the model; None: as it was named to load it."""
    chat_template: str | None = None
    """Jinja source in place of the model's own template."""
    token_events: bool = False
    """Whether streams have an event for each token where a request does not say."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Check the types, the port and the keys."""
        conform_fields(self, ConfigError)
        if not 0 <= self.port < 1 << 16:
            raise ConfigError(f"port must be 0 to 65535, not {self.port}.")
        if not all(key.isascii() and key.isprintable() and key.strip() for key in self.api_keys):
            raise ConfigError("An API key must be printable ASCII and not blank.")
