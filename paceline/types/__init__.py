"""The values that cross Paceline's seams: frozen, free of torch, free of behaviour."""

from paceline.types.output import (
    Delta,
    FinishReason,
    Output,
    Span,
    SpeculationCounts,
    StepStats,
    Timing,
    TokenLogprobs,
)
from paceline.types.request import (
    Request,
    Speculation,
)
from paceline.types.sampling import (
    SamplingParams,
)

__all__ = [
    "Delta",
    "FinishReason",
    "Output",
    "Request",
    "SamplingParams",
    "Span",
    "Speculation",
    "SpeculationCounts",
    "StepStats",
    "Timing",
    "TokenLogprobs",
]
