"""The drafters that an engine loaded at its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paceline.config import SpeculationConfig
from paceline.drafters import (
    OFF,
    PREDICTION,
    Drafter,
    Host,
    LiveDrafter,
    layers_of,
    parse_drafter,
)
from paceline.errors import ConfigError, UnknownNameError
from paceline.registry import OptionString
from paceline.types import SamplingParams
from paceline.verify import choose_rule, rules


@dataclass(frozen=True, eq=False)
class Loaded:
    """A drafter at work and the options it was built from."""

    options: Drafter
    live: LiveDrafter


@dataclass(frozen=True, eq=False)
class LoadedDrafters(Mapping[str, Loaded]):
    """By option string: the configured ones, and those that every engine has."""

    by_option_string: dict[str, Loaded]

    @classmethod
    def load(cls, config: SpeculationConfig, host: Host) -> LoadedDrafters:
        """Build them.

        Raises:
            PacelineError: one cannot be used, or the configured rule could verify none of them.
        """
        own = {OptionString.parse(text).name for text in config.drafts}
        always = [name for name in (OFF, PREDICTION) if name not in own]
        loaded = {}
        for text in dict.fromkeys((*config.drafts, *always)):
            options = parse_drafter(text)
            if options.k < 0:
                raise ConfigError(f"The drafter '{text}' wants k >= 0, not {options.k}.")
            loaded[text] = Loaded(options, options.build(host))
        drafters = cls(loaded)
        drafters.check_rule(config)
        return drafters

    def __getitem__(self, option_string: str) -> Loaded:
        """The drafter of that option string."""
        return self.by_option_string[option_string]

    def __iter__(self) -> Iterator[str]:
        """The option strings, the configured ones first."""
        return iter(self.by_option_string)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.by_option_string)

    def resolve(self, name: str) -> str:
        """The one a request means by an option string, or by a drafter's name if it is unique.

        Raises:
            UnknownNameError: none is loaded, or several are.
        """
        if name in self:
            return name
        matches = self.named(name)
        if len(matches) != 1:
            raise UnknownNameError("loaded drafter", name, self)
        return matches[0]

    def named(self, name: str) -> tuple[str, ...]:
        """The option strings of those with that name."""
        return tuple(known for known in self if OptionString.parse(known).name == name)

    def verifiable(self, names: tuple[str, ...], rule: str | None) -> tuple[str, ...]:
        """Those whose drafts the rule verifies; all, where that leaves none."""
        if rule is None or rules[rule].trees:
            return names
        return tuple(name for name in names if not self[name].options.needs.trees) or names

    def hidden_layers(self) -> tuple[int, ...]:
        """The target's layers whose states any of them observes, rising."""
        needed = (layers_of(loaded.options, loaded.live) for loaded in self.values())
        return tuple(sorted({layer for layers in needed for layer in layers}))

    def check_rule(self, config: SpeculationConfig) -> None:
        """Raise UnknownNameError or ConfigError where the configured rule could verify nothing."""
        if config.rule is None:
            return
        params = SamplingParams(temperature=0.0 if rules[config.rule].one_hot else 1.0)
        names = self.verifiable(config.drafts, config.rule)
        trees = any(self[name].options.needs.trees for name in names)
        choose_rule(config.rule, params, trees=trees)
