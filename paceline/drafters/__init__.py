"""Drafters: whatever proposes tokens, one a file. `drafters` holds them by name."""

from paceline.drafters.base import (
    DraftContext,
    Drafter,
    LiveDrafter,
    Needs,
    Observation,
    PerContext,
    drafters,
    layers_of,
    register,
)
from paceline.drafters.host import Host
from paceline.drafters.noise import NOISE
from paceline.drafters.none import OFF
from paceline.drafters.parse import parse_drafter
from paceline.drafters.prediction import PREDICTION

__all__ = [
    "NOISE",
    "OFF",
    "PREDICTION",
    "DraftContext",
    "Drafter",
    "Host",
    "LiveDrafter",
    "Needs",
    "Observation",
    "PerContext",
    "drafters",
    "layers_of",
    "parse_drafter",
    "register",
]
