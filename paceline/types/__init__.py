"""The values that cross Paceline's seams: frozen, free of torch, free of behaviour."""

from paceline.types.beam import BeamOutput, BeamSearchOutput, BeamSearchParams
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
    "BeamOutput",
    "BeamSearchOutput",
    "BeamSearchParams",
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
