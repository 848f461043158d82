"""The engine: scheduler, step, requests, and the Python face `LLM`."""

from paceline.engine.engine import Engine
from paceline.engine.llm import LLM, Stream

__all__ = ["LLM", "Engine", "Stream"]
