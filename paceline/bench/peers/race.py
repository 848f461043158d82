"""Engines by turns on the same prompts, one at work at a time: tokens per second of decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from paceline.errors import PacelineError

WARM_UP_TOKENS = 8
"""What is generated, and not counted, when an engine has started."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every engine is to do."""

    model: Path
    draft: Path | None
    """A smaller model of the same vocabulary."""
    threads: int
    context_tokens: int
    """Room for the longest prompt and its continuation."""
    temperature: float
    seed: int


@dataclass(frozen=True)
class Said:
    """One continuation."""

    tokens: int
    decode_ms: float
    """From its first token to its last."""
    text: tuple[int, ...] | str
    """Ids, or text where the engine tells no ids."""

    @property
    def tokens_per_s(self) -> float:
        """After the first token."""
        return 1e3 * (self.tokens - 1) / self.decode_ms


Decode = Callable[[Sequence[int], int], Said]
"""Continues ids by so many tokens."""


@dataclass(frozen=True)
class Contender:
    """An engine in one configuration."""

    engine: str
    way: str
    """The configuration, in words."""
    start: Callable[[], AbstractContextManager[Decode]] = field(repr=False)
    learns: bool = False
    """Whether it keeps what it learns from one start to the next."""

    @property
    def name(self) -> str:
        """Engine and configuration."""
        return f"{self.engine}, {self.way}"


@dataclass(frozen=True, kw_only=True)
class Lineup:
    """An engine's contenders, and those that cannot run."""

    version: str
    contenders: Sequence[Contender]
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Configuration -> why."""


@dataclass
class Race:
    """What was said, by contender's name and kind of prompts, a continuation a turn."""

    said: dict[str, dict[str, list[Said]]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    """Contender's name -> why it could not go on; nothing else is told of it."""

    def speeds(self, name: str, kind: str) -> list[float]:
        """Tokens per second, turn by turn."""
        return [one.tokens_per_s for one in self.said[name][kind]]

    def speed(self, name: str, kind: str) -> float:
        """The median over turns."""
        return median(self.speeds(name, kind))

    def overall(self, name: str) -> float:
        """All tokens over all time."""
        said = [one for own in self.said[name].values() for one in own]
        return 1e3 * sum(one.tokens - 1 for one in said) / sum(one.decode_ms for one in said)

    def forks(self, name: str, plain: str) -> tuple[int, int]:
        """How many texts differ from those of another contender, and of how many."""
        pairs = [
            (own.text, other.text)
            for kind, said in self.said[name].items()
            for own, other in zip(said, self.said[plain][kind], strict=True)
        ]
        return sum(own != other for own, other in pairs), len(pairs)


def run_race(
    contenders: Sequence[Contender],
    prompts: Mapping[str, Sequence[Sequence[int]]],
    tokens: int,
    turns: int,
) -> Iterator[Race | None]:
    """None after every continuation, and the race when it is over.

    A turn takes the next prompt of each kind. An engine starts anew for every turn and ends with
    it: no other is in memory, or spins, while it works. One that learns has a turn before the
    first that does not count, of other prompts where there are more. One that fails is out.
    """

    def group(turn: int) -> dict[str, Sequence[int]]:
        return {kind: own[turn % len(own)] for kind, own in prompts.items()}

    race = Race({one.name: {kind: [] for kind in prompts} for one in contenders})
    for turn in range(turns):
        for one in list(reversed(contenders)) if turn % 2 else contenders:
            if one.name in race.lost:
                continue
            try:
                with one.start() as decode:
                    warm_up = [(ids, tokens) for ids in group(-1).values()]
                    if turn or not one.learns:
                        warm_up = [(next(iter(group(turn).values())), WARM_UP_TOKENS)]
                    for ids, count in warm_up:
                        decode(ids, count)
                    for kind, ids in group(turn).items():
                        race.said[one.name][kind].append(decode(ids, tokens))
                        yield None
            except PacelineError as error:
                race.lost[one.name] = str(error)
                del race.said[one.name]
    yield race
