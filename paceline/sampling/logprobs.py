"""Log-probabilities of tokens: of the model's own law, or of the law that was sampled."""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.sampling.transforms import keep_top_k
from paceline.types import TokenLogprobs


def raw_scores(logits: Tensor) -> Tensor:
    """log softmax of one row logits[V], in float64: the model's own law, before any setting."""
    return torch.log_softmax(logits.double(), -1)


def processed_scores(law: Tensor) -> Tensor:
    """log of one row law[V]; -inf where the settings leave nothing."""
    return torch.log(law)


def token_logprobs(scores: Tensor, token: int, count: int) -> TokenLogprobs:
    """A token's entry in scores[V], with the `count` likeliest ids; the lower id leads equals."""
    logprob = scores[token]
    top: list[tuple[int, float]] = []
    if count:
        ids = keep_top_k(scores, min(count, len(scores)))
        order = ids[torch.sort(scores[ids], descending=True, stable=True).indices]
        top = [(i, s) for i, s in zip(order.tolist(), scores[order].tolist(), strict=True)]
    return TokenLogprobs(
        token=token,
        logprob=float(logprob),
        rank=int((scores > logprob).sum()) + 1,
        top=tuple((i, s) for i, s in top if s > -torch.inf),
    )
