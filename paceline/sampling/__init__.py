"""Logits to laws: the only road, for target and drafters alike."""

from paceline.sampling.pipeline import RowLaw, to_laws, to_probs
from paceline.sampling.prefix import History, Prefix, SettingIds

__all__ = ["History", "Prefix", "RowLaw", "SettingIds", "to_laws", "to_probs"]
