"""Drafters: whatever proposes tokens, one a file. `drafters` holds them by name."""

from paceline.drafters.base import (
    DraftContext,
    Drafter,
    LiveDrafter,
    Needs,
    Observation,
    PerContext,
    drafters,
    register,
)
from paceline.drafters.host import Host
from paceline.drafters.noise import NOISE
from paceline.drafters.none import OFF
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
    "register",
]
