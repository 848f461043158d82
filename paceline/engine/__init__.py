"""The engine: scheduler, step, requests, and the Python faces `LLM` and `AsyncLLM`."""

from paceline.engine.async_llm import AsyncLLM
from paceline.engine.engine import Engine
from paceline.engine.llm import LLM, Stream

__all__ = ["LLM", "AsyncLLM", "Engine", "Stream"]
