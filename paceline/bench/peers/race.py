"""Engines by turns on the same prompts, one at work at a time: tokens per second of decoding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from paceline.bench.policies import pick
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
    batch: int = 1
    """Requests at once."""


@dataclass(frozen=True)
class Said:
    """One continuation."""

    tokens: int
    decode_ms: float
    """From its first token to its last."""
    text: tuple[int, ...] | str
    """Ids, or text where the engine tells no ids."""


@dataclass(frozen=True)
class Group:
    """The continuations of prompts that were sent together."""

    said: Sequence[Said]
    wall_ms: float
    """From sending them to the last one's end."""

    @property
    def counted(self) -> tuple[int, float]:
        """Tokens and milliseconds: a single request's after its first token, else of all."""
        if len(self.said) == 1:
            return self.said[0].tokens - 1, self.said[0].decode_ms
        return sum(one.tokens for one in self.said), self.wall_ms

    @property
    def tokens_per_s(self) -> float:
        """Of all of them together."""
        tokens, ms = self.counted
        return 1e3 * tokens / ms


Decode = Callable[[Sequence[Sequence[int]], int], Sequence[Said]]
"""Continues prompts, all at once, by so many tokens each."""


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
    """What was said, by contender's name and kind of prompts, a group a turn."""

    said: dict[str, dict[str, list[Group]]] = field(default_factory=dict)
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
        counted = [one.counted for own in self.said[name].values() for one in own]
        return 1e3 * sum(tokens for tokens, _ in counted) / sum(ms for _, ms in counted)

    def forks(self, name: str, plain: str) -> tuple[int, int]:
        """How many texts differ from those of another contender, and of how many."""
        own, other = self._texts(name), self._texts(plain)
        return sum(a != b for a, b in zip(own, other, strict=True)), len(own)

    def _texts(self, name: str) -> list[tuple[int, ...] | str]:
        groups = (group for own in self.said[name].values() for group in own)
        return [one.text for group in groups for one in group.said]


def run_race(
    contenders: Sequence[Contender],
    prompts: Mapping[str, Sequence[Sequence[int]]],
    tokens: int,
    turns: int,
    batch: int = 1,
) -> Iterator[Race | None]:
    """None after every group, and the race when it is over.

    A turn takes the next `batch` prompts of each kind. An engine starts anew for every turn and
    ends with it: no other is in memory, or spins, while it works. One that learns has a turn
    before the first that does not count, of other prompts where there are more. One that fails is
    out.
    """

    def groups(turn: int) -> dict[str, list[Sequence[int]]]:
        return {kind: pick(own, turn, batch) for kind, own in prompts.items()}

    race = Race({one.name: {kind: [] for kind in prompts} for one in contenders})
    for turn in range(turns):
        for one in list(reversed(contenders)) if turn % 2 else contenders:
            if one.name in race.lost:
                continue
            try:
                with one.start() as decode:
                    if one.learns and not turn:
                        for group in groups(-1).values():
                            decode(group, tokens)
                    else:
                        decode(next(iter(groups(turn).values())), WARM_UP_TOKENS)
                    for kind, group in groups(turn).items():
                        began = time.perf_counter()
                        said = decode(group, tokens)
                        wall_ms = 1e3 * (time.perf_counter() - began)
                        race.said[one.name][kind].append(Group(said, wall_ms))
                        yield None
            except PacelineError as error:
                race.lost[one.name] = str(error)
                del race.said[one.name]
    yield race
