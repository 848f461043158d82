"""Runs side by side: a few steps of each by turns, so that what disturbs one disturbs all.

A machine that others use, too, is quicker at some times than at others, for seconds on end: runs
one after the other meet different machines, and their ratio says as much of those as of the runs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from paceline.bench.decoding import Run, Running
from paceline.bench.steered import steered
from paceline.engine import LLM
from paceline.engine.steering import Steering
from paceline.types import StepStats

SLICE_S = 0.1
"""How long one goes on before another may: long enough to find its own in the caches again."""


def side_by_side(
    llm: LLM,
    runs: Mapping[str, Running],
    wheels: Mapping[str, Steering],
    pace: Callable[[StepStats], int],
) -> dict[str, Run]:
    """All runs to their ends, each under its own controller.

    The one that is behind goes next, by the sum of what its steps have come to by `pace`. Garbage
    is collected before and after, since it would count for whichever run comes upon it.
    """
    reached = dict.fromkeys(runs, 0)
    found: dict[str, Run] = {}
    with ExitStack() as ends:
        gc.collect()
        gc.disable()
        ends.callback(gc.enable)
        for steps in runs.values():
            ends.callback(steps.close)
        while reached:
            name = min(reached, key=reached.__getitem__)
            until = time.perf_counter() + SLICE_S
            try:
                with steered(llm, wheels[name]):
                    while time.perf_counter() < until:
                        reached[name] += pace(next(runs[name]))
            except StopIteration as end:
                found[name] = end.value
                del reached[name]
    return {name: found[name] for name in runs}
