"""Logits to laws: what looks back (`adjust`), then temperature, min-p, top-k, top-p, typical-p.

The order is vLLM's (v1 `Sampler`, steps 7b to 7d): temperature first, because it reshapes the law
that the truncations look at; each truncation then sees what the one before it left, renormalised.

Here the definitions are written out in torch. The native library follows them without a sort, to
the same bits, and is asked wherever it is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.chooser import SparseLaw
from paceline.errors import ModelError
from paceline.kernels.laws import cuts, native_laws, serves
from paceline.sampling.adjust import adjust
from paceline.sampling.prefix import Prefix
from paceline.sampling.soften import soften
from paceline.sampling.transforms import keep_min_p, keep_top_k, keep_top_p, keep_typical, normalise
from paceline.types import SamplingParams

RowLaw = NDArray[np.float64] | SparseLaw
"""One row's law: law[V], or sparse where ids are cut."""


def to_probs(
    logits: Tensor, params: Sequence[SamplingParams], prefixes: Sequence[Prefix] | None = None
) -> Tensor:
    """`to_laws`, written out: laws[N, V] in float64 on the device of the logits."""
    laws = torch.zeros(logits.shape, dtype=torch.float64)
    for row, law in zip(laws, to_laws(logits, params, prefixes), strict=True):
        if isinstance(law, SparseLaw):
            row[torch.from_numpy(law.ids)] = torch.from_numpy(law.probs)
        else:
            row.copy_(torch.from_numpy(law))
    return laws.to(logits.device)


def to_laws(
    logits: Tensor, params: Sequence[SamplingParams], prefixes: Sequence[Prefix] | None = None
) -> list[RowLaw]:
    """Turn logits[N, V] into N laws in main memory, row i under params[i].

    `prefixes` say what stands before each row; settings that look back need them (see `adjust`).
    A row's bits depend on its logits, settings and prefix alone. Temperature 0 is one-hot on the
    highest logit, the lowest id among equals. A logit of -inf has probability 0.

    Raises:
        ModelError: a row holds NaN or +inf, or nothing but -inf.
    """
    if len(params) != len(logits):
        raise ValueError(f"{len(logits)} rows of logits came with {len(params)} SamplingParams.")
    logits = adjust(logits, params, prefixes)
    laws = native_laws(logits, params) if serves(logits) else None
    laws = reference_laws(logits, params) if laws is None else laws
    return [typical(law, p) for law, p in zip(laws, params, strict=True)]


def typical(law: RowLaw, params: SamplingParams) -> RowLaw:
    """Apply typical-p, the last of the cuts."""
    if params.typical_p == 1 or params.temperature == 0:
        return law
    if not isinstance(law, SparseLaw):
        ids = np.flatnonzero(law)
        law = SparseLaw(ids, law[ids], len(law))
    weights = torch.from_numpy(law.probs)
    kept = keep_typical(weights, params.typical_p)
    return SparseLaw(law.ids[kept.numpy()], normalise(weights[kept]).numpy(), law.size)


def reference_laws(logits: Tensor, params: Sequence[SamplingParams]) -> list[RowLaw]:
    """The laws up to top-p, in torch on any device; it raises for a row without a law."""
    peaks = find_peaks(logits)
    warm = [row for row, p in enumerate(params) if p.temperature > 0]
    soft = soften(logits[warm], peaks[warm], [params[row] for row in warm])
    cut = dict(zip(warm, soft.unbind(), strict=True))
    return [
        truncate(cut[row], p)
        if row in cut
        else SparseLaw.certain(int(logits[row].argmax()), logits.shape[1])
        for row, p in enumerate(params)
    ]


def find_peaks(logits: Tensor) -> Tensor:
    """The highest logits, peaks[N, 1]; raises where they betray a row without a law."""
    peaks = logits.amax(-1, keepdim=True)
    for row, peak in enumerate(peaks.flatten().tolist()):  # NaN wins every maximum
        if not math.isfinite(peak):
            found = "nothing but -inf" if peak == -math.inf else str(peak)
            raise ModelError(f"Row {row} of the logits holds {found}, so it has no distribution.")
    return peaks


def truncate(law: Tensor, params: SamplingParams) -> RowLaw:
    """Apply min-p, top-k and top-p to law[V]."""
    if not cuts(params):
        return law.numpy(force=True)
    ids = torch.nonzero(law).squeeze(1)
    if params.min_p > 0:
        ids = ids[keep_min_p(law[ids], params.min_p)]
    if 0 < params.top_k < len(ids):
        ids = ids[keep_top_k(law[ids], params.top_k)]
    if params.top_p < 1:
        ids = ids[keep_top_p(law[ids], params.top_p)]
    return SparseLaw(ids.numpy(force=True), normalise(law[ids]).numpy(force=True), size=len(law))
