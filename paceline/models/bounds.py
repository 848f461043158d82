"""The largest sizes a model file may claim; beyond them it is damaged or hostile."""

from __future__ import annotations

VOCAB = 1 << 20
WIDTH = 1 << 18
HEADS = 1 << 12
LAYERS = 1 << 10
CONTEXT = 1 << 24
"""Up to 2²⁴ a position is exact in float32."""
