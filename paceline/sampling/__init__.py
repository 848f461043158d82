"""Logits to laws: `to_probs` is the only road, for target and drafters alike."""

from paceline.sampling.pipeline import to_probs

__all__ = ["to_probs"]
