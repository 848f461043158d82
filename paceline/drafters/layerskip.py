"""Self-speculation: some of the target's own layers draft (Draft & Verify, arXiv 2309.08168).

Weights are the target's, and so are the keys and values: a kept layer reads what the target's full
pass left for the committed tokens. Those of drafted tokens go where the verifying pass of the same
step writes the target's own, so nothing of a draft stays behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from paceline.drafters.base import DraftContext, LiveDrafter, Needs, register
from paceline.drafters.checkpoint import open_head
from paceline.drafters.host import Host
from paceline.drafters.model import Filled, LiveDraftModel
from paceline.errors import ConfigError
from paceline.models import LoadedModel
from paceline.runtime import Runner

KIND = "layerskip"


@register(KIND)
@dataclass(frozen=True)
class LayerSkip:
    """Options of layer skip.

    Raises:
        ConfigError: k < 1.
    """

    layers: str = ""
    """Layers to keep, `0-2.5`; or the folder that `paceline train layerskip` wrote. Empty: the one
    that ships with the model."""
    k: int = 4
    head_ids: int | None = None
    """Draft only from the first so many ids, mostly the frequent ones."""

    needs = Needs()

    def __post_init__(self) -> None:
        """Check the draft length."""
        if self.k < 1:
            raise ConfigError(f"Drafter 'layerskip' wants k >= 1, not {self.k}.")

    def build(self, host: Host) -> LiveDrafter:
        """A program of the kept layers on the target's weights, keys and values.

        Raises:
            ConfigError: the layers are not the target's.
        """
        kept = read_layers(self.layers, host.target)
        model = host.target.keeping(kept, self.head_ids)
        return LiveDraftModel(
            Runner(model, host.kv),
            TargetCache(),
            target_vocab_size=host.target.spec.vocab_size,
            max_rows=host.max_rows,
        )


@dataclass(frozen=True)
class TargetCache:
    """The books of a cache that the target fills: all committed tokens but the last are there."""

    requests: dict[str, Filled] = field(default_factory=dict)
    flags: dict[int, int] = field(default_factory=dict)

    def state(self, ctx: DraftContext) -> Filled:
        """The request as it stands."""
        return Filled(len(ctx.tokens) - 1, ctx.preemptions)

    def flag(self, ctx: DraftContext, state: Filled) -> None:
        """The target's own books are enough."""


def read_layers(text: str, target: LoadedModel) -> frozenset[int]:
    """The layers that `0-2.5` names, or that a folder of `paceline train layerskip` does.

    Raises:
        ConfigError: it is neither, or the folder is another target's.
    """
    if text and not Path(text).exists():
        return parse_layers(text)
    head = open_head(KIND, text, target)
    return frozenset(head.config.integers("layers", high=target.spec.num_layers - 1))


def parse_layers(text: str) -> frozenset[int]:
    """`0-2.5` -> {0, 1, 2, 5}; raises ConfigError."""
    layers = set[int]()
    try:
        for part in text.split("."):
            first, dash, last = part.partition("-")
            layers |= set(range(int(first), int(last if dash else first) + 1))
    except ValueError as error:
        raise ConfigError(
            f"Drafter 'layerskip' wants layers to keep as in 0-2.5, or a folder, not '{text}'."
        ) from error
    return frozenset(layers)
