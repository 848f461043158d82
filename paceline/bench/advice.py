"""What to run, by batch size, and why: read off a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paceline.bench.calibrate import Calibration, DrafterSeen
from paceline.bench.setting import Table
from paceline.plan.beta import Interval
from paceline.plan.lengths import (
    Length,
    best_length,
    break_even_alpha_at,
    length,
    speedup_interval,
    switch_off_batch,
)

LONGEST = 16


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to run at one batch size."""

    batch: int
    drafter: str
    """"" where plain decoding is quickest."""
    k: int
    plain_tokens_per_s: float
    tokens_per_s: Interval
    """Predicted, all requests together, 90 %."""
    speedup: float
    break_even_alpha: float | None
    """Of the drafter at that k, or at 1; None where not even 1 would pay."""
    why: str


def advise(found: Calibration, batch: int) -> Advice:
    """The best drafter and length at a batch size."""
    plain = 1e3 * batch / found.target.ms(batch, batch * found.context_tokens)
    lengths = {name: best_length_of(found, name, batch) for name in found.drafters}
    name = max(lengths, key=lambda one: lengths[one].speedup)
    best, costs, seen = lengths[name], found.costs(name), found.drafters[name]
    gain = speedup_interval(seen.alphas, batch, best.k, costs)
    k = max(1, best.k)
    context = batch * found.context_tokens
    growth = found.target.ms(batch * (k + 1), context) / found.target.ms(batch, context)
    needed = break_even_alpha_at(batch, k, costs)
    needs = "never pay" if needed is None else f"pay above an alpha of {needed:.2f}"
    return Advice(
        batch=batch,
        drafter=name if best.k else "",
        k=best.k,
        plain_tokens_per_s=plain,
        tokens_per_s=Interval(plain * gain.low, plain * best.speedup, plain * gain.high)
        if best.k
        else plain_interval(found, batch),
        speedup=best.speedup,
        break_even_alpha=needed,
        why=f"verifying {batch * (k + 1)} rows takes {growth:.2f}x a pass of {batch}; drafts of {k}"
        f" by {name} {needs}, and yours is {rate(seen):.2f}",
    )


def best_length_of(found: Calibration, name: str, batch: int) -> Length:
    """The best length of one drafter at a batch size; its k is 0 where none pays."""
    means = [alpha.mean for alpha in found.drafters[name].alphas]
    return best_length(means, batch, found.costs(name), LONGEST)


def rate(seen: DrafterSeen) -> float:
    """One alpha for all positions, the times without a draft counted as failures."""
    counts = seen.counts
    return sum(counts.survived) / max(1, sum(counts.reached) + seen.asked - seen.offered)


def plain_interval(found: Calibration, batch: int) -> Interval:
    """Tokens per second without drafts, 90 %."""
    ms = found.target.interval_ms(batch, batch * found.context_tokens)
    most = 1e3 * batch / ms.low if ms.low else 1e3 * batch / ms.middle
    return Interval(1e3 * batch / ms.high, 1e3 * batch / ms.middle, most)


def table_of(advices: Sequence[Advice]) -> Table:
    """A row a batch size."""
    header = ("batch", "run", "tokens/s", "90 %", "x plain", "pays above α")
    rows = [
        (
            str(one.batch),
            f"{one.drafter} k={one.k}" if one.k else "plain",
            f"{one.tokens_per_s.middle:.1f}",
            f"{one.tokens_per_s.low:.1f} - {one.tokens_per_s.high:.1f}",
            f"{one.speedup:.2f}",
            "never" if one.break_even_alpha is None else f"{one.break_even_alpha:.2f}",
        )
        for one in advices
    ]
    return Table("What to run", header, rows)


def reasons(advices: Sequence[Advice]) -> list[str]:
    """Why, a sentence a batch size."""
    return [f"Batch {one.batch}: {one.why}." for one in advices]


def as_record(found: Calibration, advices: Sequence[Advice]) -> dict[str, Any]:
    """plan.json: what engines read, and the advice beside it."""
    rates = {
        name: [asdict(alpha.interval()) for alpha in seen.alphas]
        for name, seen in found.drafters.items()
    }
    off = {
        name: switch_off_batch([a.mean for a in seen.alphas], found.costs(name))
        for name, seen in found.drafters.items()
    }
    return found.plan.as_record() | {
        "advice": [asdict(one) for one in advices],
        "acceptance": rates,
        "switch_off_batch": off,
    }


def curve(found: Calibration, name: str, batch: int) -> list[tuple[int, float]]:
    """(k, speedup) of a drafter at its measured acceptance."""
    alphas = [alpha.mean for alpha in found.drafters[name].alphas]
    costs = found.costs(name)
    return [(k, length(alphas, batch, k, costs).speedup) for k in range(LONGEST + 1)]
