"""Logits to probabilities in steps that any machine rounds alike: what csrc/laws.cpp computes too.

Products, sums and quotients of float64 are correctly rounded everywhere, unlike a library's exp;
and the order of the sum depends on the vocabulary alone. So a law's bits depend neither on the
device nor on whether the native library is there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.types import SamplingParams

LOG2_E = 1.4426950408889634
STEEPEST = 1e300
"""Bound of 1 / temperature, so that it times a difference of 0 is 0."""
FAINTEST = -1000.0
"""An id less than 2**-1000 times as likely as the likeliest has probability 0."""
ROUND = 1.5 * 2.0**52
"""Adding it leaves the nearest integer in the low bits of the sum."""
POWER = (
    0.6931471805599462,
    0.24022650695910075,
    0.05550410866465167,
    0.009618129107618665,
    0.0013333558200794592,
    0.00015403530424776529,
    1.5252672924850737e-05,
    1.3215451633221434e-06,
    1.0205905413765595e-07,
    7.070977866508138e-09,
)
"""(2**f - 1) / f for |f| <= 1/2, within 6e-16: interpolated at Chebyshev's nodes."""
BLOCK, LANES = 1024, 16
"""Ids that are summed before the next ones', and their partial sums, by id modulo LANES."""


def soften(logits: Tensor, peaks: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """softmax(logits[N, V] / temperature), all temperatures > 0: float64 laws[N, V].

    peaks[N, 1] are the highest logits; they are off before the division, so that a tiny temperature
    cannot overflow.
    """
    rates = torch.tensor(
        [min(LOG2_E / p.temperature, STEEPEST) for p in params], dtype=torch.float64
    )
    exponents = logits.to(torch.float64, copy=True).sub_(peaks.to(torch.float64))
    weights = power_of_two(exponents.mul_(rates.to(logits.device)[:, None]))
    return weights.div_(ordered_sum(weights)[:, None])


def power_of_two(exponents: Tensor) -> Tensor:
    """2**exponents, elementwise, for exponents <= 0."""
    y = exponents.clamp(min=FAINTEST)
    rounded = y + ROUND
    f = y.sub_(rounded - ROUND)
    pairs = [f * POWER[term + 1] + POWER[term] for term in range(0, len(POWER), 2)]
    f2 = f * f
    low, high = pairs[1].mul_(f2).add_(pairs[0]), pairs[3].mul_(f2).add_(pairs[2])
    f4 = f2.mul_(f2)
    power = pairs[4].mul_(f4).add_(high).mul_(f4).add_(low).mul_(f).add_(1.0)
    scale = rounded.view(torch.int64).add_(1023).bitwise_left_shift_(52).view(torch.float64)
    return power.mul_(scale).masked_fill_(exponents <= FAINTEST, 0.0)


def ordered_sum(weights: Tensor) -> Tensor:
    """The sums[N] of weights[N, V]: lanes within blocks, block after block."""
    N, V = weights.shape
    padded = torch.nn.functional.pad(weights, (0, -V % BLOCK))
    blocks = padded.view(N, -(-V // BLOCK), BLOCK // LANES, LANES)
    lanes = blocks[:, :, 0].clone()  # [N, blocks, LANES]
    for step in range(1, BLOCK // LANES):
        lanes += blocks[:, :, step]
    while lanes.shape[-1] > 1:
        left, right = lanes.chunk(2, dim=-1)
        lanes = left + right
    total = weights.new_zeros(N)
    for block in lanes.squeeze(-1).unbind(1):
        total += block
    return total
