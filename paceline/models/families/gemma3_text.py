"""Gemma 3 as config.json calls the text model."""

from __future__ import annotations

from paceline.models.families.gemma3 import FAMILY

__all__ = ["FAMILY"]
