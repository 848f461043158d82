"""A controller for each thing that is measured: what one run taught must not help another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paceline.engine import LLM
from paceline.engine.steering import Steering, steer


@contextmanager
def steered(llm: LLM, steering: Steering | None = None) -> Iterator[Steering]:
    """Let this controller steer meanwhile, or a new one that has learnt nothing; yields it."""
    engine = llm.engine
    listeners, budget_for = list(engine.listeners), engine.budget_for
    engine.listeners[:] = [
        one for one in listeners if not isinstance(getattr(one, "__self__", None), Steering)
    ]
    try:
        if steering is None:
            steering = steer(engine)
        else:
            engine.listeners.append(steering.observe)
            engine.budget_for = steering.budget_for
        yield steering
    finally:
        engine.listeners[:] = listeners
        engine.budget_for = budget_for


def new_wheel(llm: LLM) -> Steering:
    """A controller that has learnt nothing, and does not steer yet."""
    with steered(llm) as steering:
        return steering
