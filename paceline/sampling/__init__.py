"""Logits to laws: the only road, for target and drafters alike."""

from paceline.sampling.pipeline import RowLaw, to_laws, to_probs
from paceline.sampling.prefix import History, Prefix, SettingIds
from paceline.sampling.stand_in import laws_and_failures

__all__ = [
    "History",
    "Prefix",
    "RowLaw",
    "SettingIds",
    "laws_and_failures",
    "to_laws",
    "to_probs",
]
