"""What a race of engines came to: every speed, and ours over the best of each peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paceline.bench.peers.ours import AUTOMATIC, ENGINE, PLAIN
from paceline.bench.peers.race import Contender, Race
from paceline.bench.policies import median_interval
from paceline.bench.setting import BenchReport, Chart, Setting, Table
from paceline.plan.beta import Interval

OURS = f"{ENGINE}, {AUTOMATIC}"
NOTES = (
    "A single request's tokens count after its first; of several at once all tokens count, over the"
    " time from sending them to the last one's end. End-of-text tokens are ignored.",
    "An engine starts anew for each turn and ends with it, so that no two share the machine.",
    "Paceline's controller keeps what it learns from turn to turn, as a server's does, and had one"
    " turn before them that does not count. No run knows a text of an earlier one.",
    "Forks are texts other than the same engine's own plain ones; sampled texts may differ.",
)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Ours over a peer's best configuration, on one kind of prompts."""

    engine: str
    kind: str
    best: str
    """The peer's configuration."""
    peer_tokens_per_s: float
    tokens_per_s: float
    ratio: Interval
    """Median over turns, and its 95 % interval."""


def ratios(race: Race, entered: Sequence[Contender]) -> list[Ratio]:
    """Of every kind and peer; the peer's configuration is the quickest on that kind."""
    ran = [one for one in entered if one.name in race.said]
    engines = dict.fromkeys(one.engine for one in ran if one.engine != ENGINE)
    found = []
    for kind in race.said[OURS]:
        for engine in engines:
            own = [one for one in ran if one.engine == engine]
            best = max(own, key=lambda one: race.speed(one.name, kind))
            pairs = zip(race.speeds(OURS, kind), race.speeds(best.name, kind), strict=True)
            found.append(
                Ratio(
                    engine=engine,
                    kind=kind,
                    best=best.way,
                    peer_tokens_per_s=race.speed(best.name, kind),
                    tokens_per_s=race.speed(OURS, kind),
                    ratio=median_interval([ours / theirs for ours, theirs in pairs]),
                )
            )
    return found


def report(
    race: Race, entered: Sequence[Contender], skipped: Mapping[str, str], setting: Setting
) -> BenchReport:
    """Tables, figures, and what was left out."""
    found = ratios(race, entered)
    skipped = {**skipped, **race.lost}
    return BenchReport(
        "Peers",
        setting,
        (ratio_table(found), speed_table(race, entered)),
        (),
        (*NOTES, *(f"Left out: {name}: {why}" for name, why in skipped.items())),
        record(race, found, skipped),
        (ratio_chart(found), speed_chart(race)),
    )


def ratio_table(found: Sequence[Ratio]) -> Table:
    """A row a kind and peer."""
    rows = [
        (
            *(one.kind, one.engine, one.best, f"{one.peer_tokens_per_s:.1f}"),
            *(f"{one.tokens_per_s:.1f}", f"{one.ratio.middle:.2f}"),
            f"{one.ratio.low:.2f} - {one.ratio.high:.2f}",
        )
        for one in found
    ]
    header = ("kind", "peer", "its best", "its tokens/s", "ours", "ours / its", "95 %")
    return Table("Paceline's automatic configuration over the best of each peer", header, rows)


def speed_table(race: Race, entered: Sequence[Contender]) -> Table:
    """Tokens per second: a row a contender, a column a kind."""
    kinds = list(race.said[OURS])
    rows = []
    for one in entered:
        if one.name in race.said:
            plain = f"{one.engine}, {PLAIN}"
            forks = ("-", "-")
            if plain in race.said and plain != one.name:
                ratio = race.overall(one.name) / race.overall(plain)
                forks = (f"{ratio:.2f}", "{}/{}".format(*race.forks(one.name, plain)))
            speeds = [f"{race.speed(one.name, kind):.1f}" for kind in kinds]
            rows.append((one.name, *speeds, f"{race.overall(one.name):.1f}", *forks))
    return Table(
        "Tokens per second, all requests together",
        ("engine", *kinds, "all", "x plain", "forks"),
        rows,
    )


def ratio_chart(found: Sequence[Ratio]) -> Chart:
    """A bar a peer."""
    engines = dict.fromkeys(one.engine for one in found)
    return Chart(
        "Paceline over the best of each peer",
        "x the peer",
        list(dict.fromkeys(one.kind for one in found)),
        {name: [one.ratio for one in found if one.engine == name] for name in engines},
        base=1.0,
    )


def speed_chart(race: Race) -> Chart:
    """A bar a contender."""
    return Chart(
        "All requests together",
        "tokens/s",
        list(race.said[OURS]),
        {
            name: [median_interval(race.speeds(name, kind)) for kind in said]
            for name, said in race.said.items()
        },
    )


def record(race: Race, found: Sequence[Ratio], skipped: Mapping[str, str]) -> dict[str, Any]:
    """All figures as plain values."""
    speeds = {
        name: {kind: race.speeds(name, kind) for kind in said} for name, said in race.said.items()
    }
    return {
        "ratios": [asdict(one) for one in found],
        "tokens_per_s": speeds,
        "skipped": dict(skipped),
    }
