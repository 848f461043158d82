"""Tokens per pass, speedup, break-even and the best draft length.

`alpha` is P(position j accepted | all before it were), `k` the draft length in tokens and `c` the
cost of one draft token in one-row target passes, C_D / C_T. The closed forms are those of Leviathan
et al. (arXiv 2211.17192, section 3), for one alpha at every position.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate

from paceline.errors import ConfigError


def expected_tokens(alpha: float, k: int) -> float:
    """Committed tokens per pass, (1 - alpha^(k+1)) / (1 - alpha) (equation 1); E(.65, 4) = 2.53."""
    check(alpha, k)
    if abs(1 - alpha) < 1e-12:
        return float(k + 1)
    return float((1 - alpha ** (k + 1)) / (1 - alpha))


def expected_tokens_conditional(alphas: Sequence[float]) -> float:
    """Committed tokens per pass, 1 + sum over i of alpha_1 … alpha_i, one alpha a position.

    alphas[j] is conditional on the positions before j: marginal means multiply to a wrong answer.
    (.8, .5) gives 1 + .8 + .4 = 2.2.
    """
    return tokens_by_length(alphas)[-1]


def tokens_by_length(alphas: Sequence[float]) -> list[float]:
    """That for drafts of 0, 1, … len(alphas) tokens; (.8, .5) gives 1, 1.8 and 2.2."""
    for alpha in alphas:
        check(alpha, len(alphas))
    return list(accumulate(accumulate(alphas, operator.mul), initial=1.0))


def speedup(alpha: float, k: int, c: float) -> float:
    """Over plain decoding, when a pass of k + 1 rows costs what one row does (theorem 3.8).

    E / (1 + k c): alpha .8, k 9, c 1/30 gives 3.433.
    """
    return expected_tokens(alpha, k) / (1 + k * c)


def measured_speedup(
    expected: float, plain_pass_ms: float, verify_pass_ms: float, draft_ms: float
) -> float:
    """Over plain decoding, from measured costs: E C_T(1) / (C_T(k+1) + C_draft(k)).

    2.53 tokens for a 60 ms verifying pass and 8 ms of drafting, against 50 ms a plain token, is
    2.53 * 50 / 68 = 1.860.
    """
    return expected * plain_pass_ms / (verify_pass_ms + draft_ms)


def break_even_alpha(k: int, c: float) -> float:
    """The alpha above which drafting k tokens pays: the root of E(alpha, k) = 1 + k c.

    To within 1e-12; c = 1/30 gives .0627 (k = 2), .1177 (k = 4), .2105 (k = 8).

    Raises:
        ConfigError: k < 1, or c outside [0, 1]: a draft dearer than the target never pays.
    """
    if k < 1 or not 0 <= c <= 1:
        raise ConfigError(f"There is no break-even for k = {k} and c = {c}; use k >= 1, c <= 1.")
    low, high = 0.0, 1.0
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle, k, c) else (middle, high)
    return (low + high) / 2


def pays(alpha: float, k: int, c: float) -> bool:
    """Whether alpha + … + alpha^k > k c: E > 1 + k c without the 1s, which would cost digits."""
    return sum(alpha**i for i in range(1, k + 1)) > k * c


def best_k(alpha: float, c: float) -> int:
    """The draft length of the greatest `speedup`; 0 where none pays.

    It is finite for alpha < 1, since E <= 1 / (1 - alpha) while the cost grows linearly. c = 1/30:
    alpha .55 gives 4 (1.862), .8 gives 9 (3.433), .9 gives 16 (5.434), .99 gives 66 (15.31).

    Raises:
        ConfigError: alpha = 1 or c <= 0, for which longer is always better.
    """
    if not 0 <= alpha < 1 or c <= 0:
        raise ConfigError(f"There is no finite best k for alpha = {alpha} and c = {c}.")
    # E is concave in k and the cost linear, so the speedup rises to one peak.
    k = 0
    while speedup(alpha, k + 1, c) > speedup(alpha, k, c):
        k += 1
    return k


def operations_growth(alpha: float, k: int, c_operations: float) -> float:
    """Arithmetic per committed token against plain decoding (theorem 3.11).

    `c_operations` is draft operations per token over the target's; (k c + k + 1) / E. alpha .8,
    k 5, c .05 gives 6.25 / 3.689 = 1.694: speculation spends arithmetic to save bytes.
    """
    return (k * c_operations + k + 1) / expected_tokens(alpha, k)


def check(alpha: float, k: int) -> None:
    """Refuse what is no rate or no length."""
    if not 0 <= alpha <= 1 or k < 0:
        raise ConfigError(f"alpha must be in [0, 1] and k >= 0, not {alpha} and {k}.")
