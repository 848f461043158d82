"""The controller at an engine's wheel: it settles every step's budgets and hears what came of them.

The engine knows nothing of it: it asks `budget_for` and calls its listeners.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.drafters import OFF, Drafter
from paceline.engine.engine import Engine
from paceline.errors import ConfigError
from paceline.plan.controller import Controller
from paceline.plan.decision import Candidate, Decision, Outcome, Step
from paceline.plan.forecast import DrafterOnPaper
from paceline.plan.record import MeasuredPlan
from paceline.plan.unmeasured import TARGET, drafts
from paceline.types import StepStats


class Steering:
    """A controller, told in the engine's own words."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    def budget_for(self, requests: Sequence[Candidate], prefill_rows: int) -> Decision:
        """The budgets of the step to come."""
        return self.controller.decide(requests, prefill_rows)

    def observe(self, stats: StepStats) -> None:
        """Learn from a step."""
        if stats.drafts:
            self.controller.observe(told(stats))
        for request_id in stats.ended:
            self.controller.forget(request_id)


def steer(engine: Engine) -> Steering:
    """Put a controller at the engine's wheel, with the costs of its plan or none measured yet.

    Raises:
        ConfigError: the plan cannot be read, or is for other models.
    """
    plan = engine.config.speculation.plan
    measured = None if plan is None else MeasuredPlan.read(plan)
    if measured and measured.model != engine.model.name:
        raise ConfigError(
            f"The plan {plan} is of {measured.model}, not of {engine.model.name}; measure anew."
        )
    papers = on_paper(engine.drafters, measured)
    target = TARGET if measured is None else measured.target
    controller = Controller(target, papers, engine.limits, guessed=measured is None)
    steering = Steering(controller)
    engine.budget_for = steering.budget_for
    engine.listeners.append(steering.observe)
    return steering


def on_paper(
    options: Mapping[str, Drafter], measured: MeasuredPlan | None
) -> dict[str, DrafterOnPaper]:
    """What is known of each drafter before it ran; one that never drafts is left out."""
    known = measured.drafters if measured else {}
    found = {}
    for name, drafter in options.items():
        if name != OFF:
            needs = drafter.needs
            most = math.inf if needs.most_passes is None else needs.most_passes
            paper = known.get(name) or DrafterOnPaper(drafts(needs.sequential))
            found[name] = replace(paper, costs=replace(paper.costs, most_passes=most))
    return found


def told(stats: StepStats) -> Step:
    """The step as the controller knows it; a draft that found no room tells nothing."""
    outcomes = [
        Outcome(one.request_id, one.proposed, one.accepted) for one in stats.drafts if one.budget
    ]
    return Step(
        rows=stats.prefill_rows + stats.verify_rows,
        pass_ms=stats.pass_ms,
        draft_ms=stats.draft_ms,
        outcomes=outcomes,
        prefill_rows=stats.prefill_rows,
    )
