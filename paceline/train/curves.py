"""Curves of a training run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PICTURE = "curves.png"


def draw_curves(curves: Sequence[dict[str, Any]], out: Path) -> Path | None:
    """Write loss, acceptance by depth and tokens per pass; None where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)
    except ImportError:
        return None
    figure = Figure(figsize=(10, 3), layout="constrained")
    losses, acceptance, tokens = figure.subplots(1, 3)
    steps = [entry["step"] for entry in curves]
    for key, label in (("train_loss", "training"), ("loss", "held out")):
        losses.plot(steps, [entry[key] for entry in curves], label=label)
    for depth in range(len(curves[0]["acceptance"]) if curves else 0):
        values = [entry["acceptance"][depth] for entry in curves]
        acceptance.plot(steps, values, label=f"depth {depth + 1}")
    tokens.plot(steps, [entry["tokens_per_pass"] for entry in curves])
    for axes, title in ((losses, "loss"), (acceptance, "held-out acceptance")):
        axes.set(title=title, xlabel="step")
        axes.legend()
    tokens.set(title="predicted tokens per pass", xlabel="step")
    path = out / PICTURE
    figure.savefig(path)
    return path
