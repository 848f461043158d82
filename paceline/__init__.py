"""Paceline: lossless speculative decoding. The public names, imported when first used."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.config import EngineConfig
    from paceline.engine.async_llm import AsyncLLM
    from paceline.engine.llm import LLM
    from paceline.errors import PacelineError
    from paceline.types import (
        BeamSearchOutput,
        BeamSearchParams,
        Delta,
        Output,
        SamplingParams,
        Speculation,
    )

__all__ = [
    "LLM",
    "AsyncLLM",
    "BeamSearchOutput",
    "BeamSearchParams",
    "Delta",
    "EngineConfig",
    "Output",
    "PacelineError",
    "SamplingParams",
    "Speculation",
]

# Read when torch is first imported. Threads that spin at a barrier stop the machine where another
# process wants a core: twelve times slower decoding was measured on two cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOMES = {
    "AsyncLLM": "paceline.engine.async_llm",
    "LLM": "paceline.engine.llm",
    "BeamSearchOutput": "paceline.types",
    "BeamSearchParams": "paceline.types",
    "Delta": "paceline.types",
    "EngineConfig": "paceline.config",
    "Output": "paceline.types",
    "PacelineError": "paceline.errors",
    "SamplingParams": "paceline.types",
    "Speculation": "paceline.types",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home; torch is loaded only if that home needs it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names too, imported yet or not."""
    return sorted({*globals(), *__all__})
