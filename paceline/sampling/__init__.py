"""Logits to laws: `to_probs` is the only road, for target and drafters alike."""

from paceline.sampling.pipeline import to_probs
from paceline.sampling.prefix import History, Prefix, SettingIds

__all__ = ["History", "Prefix", "SettingIds", "to_probs"]
