"""Logits to laws: the only road, for target and drafters alike."""

from paceline.sampling.pipeline import RowLaw, to_laws, to_probs

__all__ = ["RowLaw", "to_laws", "to_probs"]
