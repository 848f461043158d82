"""`to_probs`: what looks back (`adjust`), then temperature, min-p, top-k, top-p and typical-p.

The order is vLLM's (v1 `Sampler`, steps 7b to 7d): temperature first, because it reshapes the law
that the truncations look at; each truncation then sees what the one before it left, renormalised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.errors import ModelError
from paceline.sampling.adjust import adjust
from paceline.sampling.prefix import Prefix
from paceline.sampling.transforms import keep_min_p, keep_top_k, keep_top_p, keep_typical, normalise
from paceline.types import SamplingParams


def to_probs(
    logits: Tensor, params: Sequence[SamplingParams], prefixes: Sequence[Prefix] | None = None
) -> Tensor:
    """Turn logits[N, V] into laws[N, V]: float64 on the same device, row i under params[i].

    `prefixes` say what stands before each row; settings that look back need them (see `adjust`).

    A row's bits do not depend on the other rows. Temperature 0 is one-hot on the highest logit,
    the lowest id among equals. A logit of -inf has probability 0.

    Raises:
        ModelError: a row holds NaN or +inf, or nothing but -inf.
    """
    if len(params) != len(logits):
        raise ValueError(f"{len(logits)} rows of logits came with {len(params)} SamplingParams.")
    logits = adjust(logits, params, prefixes)
    peaks = find_peaks(logits)
    cold = [row for row, p in enumerate(params) if p.temperature == 0]
    warm = [row for row, p in enumerate(params) if p.temperature > 0]
    if not cold:
        laws = soften(logits, peaks, params)
    else:
        laws = torch.zeros(logits.shape, dtype=torch.float64, device=logits.device)
        laws[cold, logits[cold].argmax(-1)] = 1
        laws[warm] = soften(logits[warm], peaks[warm], [params[row] for row in warm])
    for row in warm:
        truncate(laws[row], params[row])
    return laws


def find_peaks(logits: Tensor) -> Tensor:
    """The highest logits, peaks[N, 1]; raises where they betray a row without a law."""
    peaks = logits.amax(-1, keepdim=True)
    for row, peak in enumerate(peaks.flatten().tolist()):  # NaN wins every maximum
        if not math.isfinite(peak):
            found = "nothing but -inf" if peak == -math.inf else str(peak)
            raise ModelError(f"Row {row} of the logits holds {found}, so it has no distribution.")
    return peaks


def soften(logits: Tensor, peaks: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """Divide logits[N, V] by the temperatures (all > 0) and normalise: laws[N, V]."""
    temperatures = torch.tensor([p.temperature for p in params], dtype=torch.float64)
    scaled = logits.to(torch.float64, copy=True).sub_(peaks)
    # Peaks are off before the division, so that a tiny temperature cannot overflow.
    return torch.softmax(scaled.div_(temperatures.to(logits.device)[:, None]), -1)


def truncate(law: Tensor, params: SamplingParams) -> None:
    """Apply min-p, top-k, top-p and typical-p to law[V] in place."""
    ids: Tensor | slice = slice(None)
    if params.min_p > 0:
        ids = keep_min_p(law, params.min_p)
    if 0 < params.top_k < len(law[ids]):
        ids = narrow(ids, keep_top_k(law[ids], params.top_k))
    if params.top_p < 1:
        ids = narrow(ids, keep_top_p(law[ids], params.top_p))
    if params.typical_p < 1:
        ids = narrow(ids, keep_typical(law[ids], params.typical_p))
    if isinstance(ids, Tensor):
        kept = normalise(law[ids])
        law.zero_()
        law[ids] = kept


def narrow(ids: Tensor | slice, kept: Tensor) -> Tensor:
    """Those of `ids` (a tensor, or the slice of all) whose index was kept."""
    return ids[kept] if isinstance(ids, Tensor) else kept
