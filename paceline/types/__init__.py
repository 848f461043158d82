"""The values that cross Paceline's seams: frozen, free of torch, free of behaviour."""

from paceline.types.beam import BeamOutput, BeamSearchOutput, BeamSearchParams
from paceline.types.output import (
    Delta,
    DraftStats,
    FinishReason,
    Output,
    Span,
    SpeculationCounts,
    StepStats,
    Timing,
    TokenLogprobs,
    summed,
)
from paceline.types.request import (
    AUTO,
    Request,
    Speculation,
    check_length,
)
from paceline.types.sampling import (
    SamplingParams,
)

__all__ = [
    "AUTO",
    "BeamOutput",
    "BeamSearchOutput",
    "BeamSearchParams",
    "Delta",
    "DraftStats",
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
    "check_length",
    "summed",
]
