"""Laws of many requests in one call, in which a row without a law is its own request's trouble."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from paceline.chooser import SparseLaw
from paceline.errors import ModelError, PacelineError, RequestError
from paceline.sampling.pipeline import RowLaw, to_laws
from paceline.sampling.prefix import Prefix
from paceline.types import SamplingParams


def laws_and_failures(
    logits: Tensor, params: Sequence[SamplingParams], prefixes: Sequence[Prefix] | None = None
) -> tuple[list[RowLaw], dict[int, PacelineError]]:
    """`to_laws` of logits[N, V], and by row why it has no law; there a certain id 0 stands in.

    A stand-in is a law like any other, so a drafter that draws from it and a rule that judges by
    it stay exact. Only what comes after such a row must not be committed.
    """
    try:
        return to_laws(logits, params, prefixes), {}
    except (RequestError, ModelError):
        laws, failures = list[RowLaw](), dict[int, PacelineError]()
    for row in range(len(logits)):
        own = slice(row, row + 1)
        try:
            laws += to_laws(logits[own], params[own], prefixes and prefixes[own])
        except (RequestError, ModelError) as error:
            laws.append(SparseLaw.certain(0, logits.shape[1]))
            failures[row] = error
    return laws, failures
