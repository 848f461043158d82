"""Whose tokens they were, where several drafters have a part in one output."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from paceline.metrics.meters import Meters
from paceline.plan.decision import Candidate, Decision, Mode, Share
from paceline.server.names import DrafterNames
from paceline.server.usage import usage_of
from paceline.types import DraftStats, Output, Request, Speculation, StepStats, summed
from tests.engines import engine, expected, request, run

Drafted = tuple[Request, Output, list[DraftStats], bytes]
COUNTED = ("passes", "proposed", "accepted")


def drafted(*turns: tuple[str, int]) -> Drafted:
    """A request whose drafter and length change with every step: what its listeners were told, and
    the metrics page afterwards."""
    built, steps = engine("test_forest"), list[StepStats]()
    built.listeners.append(steps.append)

    def budget_for(requests: list[Candidate], prefill_rows: int) -> Decision:
        (one,) = requests
        share = Share(*turns[len(steps) % len(turns)])
        return Decision(shares={one.id: share}, mode=Mode.SPECULATE, reason="by turns")

    built.budget_for = budget_for  # type: ignore[assignment]
    settings: dict[str, Any] = {"temperature": 0, "max_tokens": 40, "ignore_eos": True}
    guess = tuple(expected("abc", request("a", **settings).params))
    asked = request("a", speculation=Speculation(k="auto", prediction=guess), **settings)
    (output,) = run(built, asked)
    assert output.token_ids == guess
    meters = Meters(built, str)
    meters.ended(output, 1.0)
    return asked, output, [one for step in steps for one in step.drafts], meters.page()


@pytest.fixture(scope="module", params=[6, 1], ids=["little of the guess", "most of it"])
def shared(request: pytest.FixtureRequest) -> Drafted:
    """Whether another drafter proposed most, or the guess did."""
    return drafted(("test_forest", request.param), ("prediction", 2), ("", 0))


def test_each_drafter_has_its_own_counts(shared: Drafted) -> None:
    _, output, drafts, _ = shared
    told = Counter[tuple[str, str]]()
    for one in drafts:
        name = one.drafter or "none"
        told.update({(name, "passes"): 1, (name, "proposed"): one.proposed})
        told.update({(name, "accepted"): one.accepted})
    assert set(output.by_drafter) == {"test_forest", "prediction", "none"}
    for name, counts in output.by_drafter.items():
        assert {each: getattr(counts, each) for each in COUNTED} == {
            each: told[name, each] for each in COUNTED
        }
    assert summed([*output.by_drafter.values()]) == output.counts


def test_usage_counts_what_came_of_the_prediction(shared: Drafted) -> None:
    """All that was accepted were the prediction's, or none, by who had proposed most."""
    asked, output, drafts, _ = shared
    own = sum(one.accepted for one in drafts if one.drafter == "prediction")
    assert 0 < own < output.counts.accepted
    usage = usage_of([asked], [output], DrafterNames(["test_forest"]))
    assert usage["completion_tokens_details"] == {
        "accepted_prediction_tokens": own,
        "rejected_prediction_tokens": 40 - own,
    }


def test_no_more_of_a_prediction_is_accepted_than_it_has(shared: Drafted) -> None:
    """Of 6 tokens, in an output that repeats itself, 13 were."""
    asked, output, _, _ = shared
    own = output.by_drafter["prediction"].accepted
    guess = replace(asked.speculation, prediction=output.token_ids[: own - 1])
    short = replace(asked, speculation=guess)
    usage = usage_of([short], [output], DrafterNames(["test_forest"]))
    assert usage["completion_tokens_details"] == {
        "accepted_prediction_tokens": own - 1,
        "rejected_prediction_tokens": 0,
    }


def test_the_metrics_page_counts_each_drafter_alone(shared: Drafted) -> None:
    """Passes and positions of an output were all its main drafter's."""
    _, _, drafts, page = shared
    for name in ("test_forest", "prediction", ""):
        passes = sum(one.drafter == name for one in drafts)
        series = f'paceline_passes_total{{drafter="{name or "none"}"}} {float(passes)}\n'
        assert series in page.decode()
    own = [one for one in drafts if one.drafter == "prediction"]
    rate = sum(one.accepted for one in own) / sum(one.proposed for one in own)
    (line,) = (
        line
        for line in page.decode().splitlines()
        if line.startswith('paceline_acceptance_recent{drafter="prediction"}')
    )
    assert float(line.split()[-1]) == pytest.approx(rate)
