"""plan.json: what `paceline plan` measured, for engines that start with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import ConfigError
from paceline.plan.belief import Prior
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.forecast import DrafterOnPaper

VERSION = 1


@dataclass(frozen=True)
class MeasuredPlan:
    """The costs of a target and its drafters on one machine, and how drafts fared."""

    model: str
    target: CostCurve
    drafters: Mapping[str, DrafterOnPaper]
    """By option string."""

    def as_record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "version": VERSION,
            "model": self.model,
            "target": curve_record(self.target),
            "drafters": {name: paper_record(paper) for name, paper in self.drafters.items()},
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> MeasuredPlan:
        """From plain values; raises KeyError, TypeError or ValueError."""
        if record["version"] != VERSION:
            raise ValueError(f"version {record['version']}, not {VERSION}")
        papers = {name: paper_of(one) for name, one in record["drafters"].items()}
        return cls(str(record["model"]), curve_of_record(record["target"]), papers)

    @classmethod
    def read(cls, path: str | Path) -> MeasuredPlan:
        """The plan in a file; raises ConfigError."""
        try:
            return cls.of_record(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise ConfigError(f"Cannot read the plan {path}: {error.strerror}.") from error
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ConfigError(
                f"{path} is no plan of `paceline plan` ({error}); measure anew."
            ) from error


def curve_record(curve: CostCurve) -> dict[str, Any]:
    """A cost curve as plain values."""
    return {
        "rows": list(curve.knots),
        "ms": list(curve.values_ms),
        "ms_per_context_token": curve.ms_per_context_token,
        "errors": list(curve.errors),
    }


def curve_of_record(record: Mapping[str, Any]) -> CostCurve:
    """A cost curve from plain values; raises ValueError for one that costs nothing or falls."""
    rows, ms = numbers(record["rows"]), numbers(record["ms"])
    if not rows or len(rows) != len(ms) or list(rows) != sorted(set(rows)) or rows[0] < 1:
        raise ValueError("its rows do not rise from 1 on")
    if min(ms) <= 0 or list(ms) != sorted(ms):
        raise ValueError("its milliseconds do not rise with the rows")
    context = float(record["ms_per_context_token"])
    return CostCurve(rows, ms, max(0.0, context), numbers(record["errors"]))


def paper_record(paper: DrafterOnPaper) -> dict[str, Any]:
    """A drafter as plain values."""
    costs, prior = paper.costs, paper.prior
    return {
        "step_ms": costs.step_ms,
        "request_ms": costs.request_ms,
        "passes": curve_record(costs.passes) if isinstance(costs.passes, CostCurve) else None,
        "alpha": prior.alpha,
        "offers": prior.offers,
    }


def paper_of(record: Mapping[str, Any]) -> DrafterOnPaper:
    """A drafter from plain values."""
    passes = record["passes"]
    step_ms, request_ms, alpha, offers = numbers(
        [record[name] for name in ("step_ms", "request_ms", "alpha", "offers")]
    )
    if not (0 < alpha < 1 and 0 < offers <= 1 and min(step_ms, request_ms) >= 0):
        raise ValueError("a drafter's rates are not in (0, 1)")
    costs = DraftCosts(step_ms, request_ms, None if passes is None else curve_of_record(passes))
    return DrafterOnPaper(costs, Prior(alpha=alpha, offers=offers))


def numbers(values: Sequence[Any]) -> tuple[float, ...]:
    """Finite floats; raises ValueError."""
    found = tuple(map(float, values))
    if not all(abs(value) < 1e12 for value in found):
        raise ValueError("a number is out of all measure")
    return found
