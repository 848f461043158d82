"""The target's joint law of its first tokens, by teacher forcing: every output there can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.cache import Slots
from paceline.chooser.race import Floats
from paceline.models import LoadedModel
from paceline.runtime import Rows, Runner, pack
from paceline.sampling import to_probs
from paceline.types import SamplingParams

TOKENS, TOP_K = 4, 4
"""The first token comes of the prompt's own pass; drafting acts on tokens 2 to 4."""
PARAMS = SamplingParams(top_k=TOP_K, max_tokens=TOKENS, ignore_eos=True)

Distort = Callable[[int, Tensor], Tensor]
"""(index of an output token, laws[N, V] there) -> other laws; it tests the tests."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JointLaw:
    """The exact law of the first TOKENS tokens over S possible outputs."""

    tokens: NDArray[np.int64]
    """tokens[S, TOKENS]."""
    ranks: NDArray[np.int64]
    """ranks[S, TOKENS]: each token's place among those possible there, the likeliest 0."""
    probs: Floats
    """probs[S]."""

    def count(self, outputs: Iterable[Sequence[int]]) -> Floats:
        """How often each possible output came, counts[S]; others are left out."""
        index = {tuple(row): at for at, row in enumerate(self.tokens.tolist())}
        found = [index[tuple(o)] for o in outputs if tuple(o) in index]
        return np.bincount(found, minlength=len(self.probs)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Context:
    """One beginning of an output, with its probability and the cache slots of all its tokens."""

    tokens: tuple[int, ...]
    ranks: tuple[int, ...]
    prob: float
    slots: Slots

    def rows(self) -> Rows:
        """The pass of its last token."""
        return Rows(tokens=self.tokens[-1:], start=len(self.slots) - 1, slots=self.slots)


def joint_law(
    model: LoadedModel, prompt: Sequence[int], distort: Distort | None = None
) -> JointLaw:
    """The law under PARAMS after a prompt; one plain pass a token, no drafts, no engine."""
    fresh = count(len(prompt))
    runner = Runner.allocate(model, len(prompt) + sum(TOP_K**n for n in range(1, TOKENS)))
    contexts = [Context((), (), 1.0, np.arange(len(prompt)))]
    work = [Rows(tokens=prompt, start=0, slots=contexts[0].slots)]
    for index in range(TOKENS):
        laws = to_probs(runner.forward(pack(work)).logits, [PARAMS] * len(work))  # [N, V]
        if distort is not None:
            laws = distort(index, laws)
        pairs = zip(contexts, laws, strict=True)
        contexts = [longer for context, law in pairs for longer in extend(context, law, fresh)]
        work = [context.rows() for context in contexts]
    return JointLaw(
        tokens=np.array([context.tokens for context in contexts]),
        ranks=np.array([context.ranks for context in contexts]),
        probs=np.array([context.prob for context in contexts]),
    )


def extend(context: Context, law: Tensor, fresh: Iterable[int]) -> list[Context]:
    """The context with each token that law[V] allows, likeliest first."""
    ids = torch.nonzero(law).flatten()
    ids = ids[law[ids].argsort(descending=True, stable=True)]
    return [
        Context(
            (*context.tokens, token),
            (*context.ranks, rank),
            context.prob * float(law[token]),
            np.append(context.slots, slot),
        )
        for (rank, token), slot in zip(enumerate(ids.tolist()), fresh, strict=False)
    ]
