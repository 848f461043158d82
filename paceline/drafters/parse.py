"""Drafters from text: one option string, or several joined by `+`."""

from __future__ import annotations

import re
from pathlib import Path

from paceline.drafters.base import Drafter, drafters
from paceline.drafters.joint import Joined, Joint
from paceline.errors import ConfigError
from paceline.registry import OptionString

DEFAULT_JOINT = "merged"


def parse_drafter(text: str) -> Drafter:
    """Drafter options from NAME[:ARG][:key=value]… or the path of a .py file, joined by `+`.

    `suffix+ngram` merges the two; a first part that itself joins drafters says how:
    `cascade:least=2+suffix+ngram`.

    Raises:
        ConfigError: what is named is unknown, joins nothing, or joins what joins others.
    """
    first, *rest = (parse_part(part) for part in split(text))
    if not isinstance(first, Joint):
        if not rest:
            return first
        first, rest = drafters[DEFAULT_JOINT](), [first, *rest]
    if not rest or any(isinstance(part, Joint) for part in rest):
        raise ConfigError(
            f"'{text}' joins no drafters, or joints among them; write NAME+NAME or JOINT+NAME+NAME."
        )
    return first.join(tuple(rest))


def parts(options: Drafter) -> tuple[Drafter, ...]:
    """The drafters that were joined, or the one itself."""
    return options.sources if isinstance(options, Joined) else (options,)


def split(text: str) -> list[str]:
    """The parts of a joined option string; `+` splits only before a registered name."""
    names = "|".join(map(re.escape, drafters))
    return re.split(rf"\+(?=(?:{names})(?:[:+]|$))", text.strip())


def parse_part(text: str) -> Drafter:
    """One drafter's options."""
    option = OptionString.parse(text)
    path = Path(option.name)
    kind = drafters.load_file(path) if path.suffix == ".py" else drafters[option.name]
    options: Drafter = option.build(kind, "drafter")
    return options
