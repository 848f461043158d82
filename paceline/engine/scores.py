"""What a pass's logits say: the laws to verify by, and the log-probabilities to tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import torch
from torch import Tensor

from paceline.engine.proposal import Proposal
from paceline.errors import PacelineError
from paceline.sampling import Prefix, RowLaw, laws_and_failures
from paceline.sampling.logprobs import processed_scores, raw_scores, token_logprobs
from paceline.types import TokenLogprobs

R = TypeVar("R", Tensor, Sequence[RowLaw])


def split_rows(rows: R, counts: Sequence[int]) -> list[R]:
    """rows[N] -> parts of so many rows, in order."""
    return [rows[start:stop] for start, stop in pairwise(accumulate(counts, initial=0))]


Failures = Mapping[Proposal, Mapping[int, PacelineError]]
"""By row of a draft, why the target has no law there: what gets there cannot go on."""


def target_laws(logits: Tensor, proposals: Sequence[Proposal]) -> tuple[list[RowLaw], Failures]:
    """The laws [R, V] of the rows that are verified: len(draft) + 1 a proposal that samples.

    Rows of prompts whose log-probabilities are wanted are left out.
    """
    params = [p.context.params for p in proposals for _ in range(p.law_count)]
    if len(params) < len(logits):
        own = split_rows(logits, [p.logit_count for p in proposals])
        pairs = zip(own, proposals, strict=True)
        logits = torch.cat([rows[len(rows) - p.law_count :] for rows, p in pairs])
    prefixes = None
    if any(p.context.params.adjusts for p in proposals):
        prefixes = [prefix for p in proposals for prefix in node_prefixes(p)]
    laws, failed = laws_and_failures(logits, params, prefixes)
    failures: dict[Proposal, dict[int, PacelineError]] = defaultdict(dict)
    if failed:
        rows = [(p, row) for p in proposals for row in range(p.law_count)]
        for at, error in failed.items():
            proposal, row = rows[at]
            failures[proposal][row] = error
    return laws, failures


def node_prefixes(proposal: Proposal) -> Iterator[Prefix]:
    """What stands before each token that the proposal's laws are about."""
    for row in range(proposal.law_count):
        yield proposal.context.prefix(proposal.draft.tree.path_tokens(row))


class Told:
    """The log-probabilities that a pass tells of prompts and outputs; logits[N, V], laws [R, V]."""

    def __init__(
        self, proposals: Sequence[Proposal], logits: Tensor, laws: Sequence[RowLaw]
    ) -> None:
        self.entries: dict[Proposal, tuple[TokenLogprobs, ...]] = {}
        """Those of committed tokens."""
        self._rows: dict[Proposal, tuple[Tensor, Sequence[RowLaw]]] = {}
        if any(p.context.params.tells_logprobs for p in proposals):
            own_logits = split_rows(logits, [p.logit_count for p in proposals])
            own_laws = split_rows(laws, [p.law_count for p in proposals])
            pairs = zip(own_logits, own_laws, strict=True)
            self._rows = dict(zip(proposals, pairs, strict=True))

    def tell_prompt(self, proposal: Proposal) -> None:
        """Append the entries of the prompt's tokens behind the rows; call it before the commit."""
        sequence, count = proposal.work.sequence, proposal.context.params.prompt_logprobs
        if count is None or proposal.work.decodes:
            return
        known = len(sequence.prompt_logprobs)
        logits = self._rows[proposal][0][known - 1 - sequence.computed :]
        behind = sequence.tokens[known : sequence.prompt_tokens]
        sequence.prompt_logprobs += [
            token_logprobs(raw_scores(row), token, count)
            for row, token in zip(logits, behind, strict=False)
        ]

    def tell_output(
        self, proposal: Proposal, path: Sequence[int], committed: Sequence[int]
    ) -> None:
        """Append the entries of the committed tokens, of the rows at which they were chosen."""
        params = proposal.context.params
        if params.logprobs is None or not committed:
            return
        logits, laws = self._rows[proposal]
        logits = logits[len(logits) - len(laws) :]
        entries = []
        for row, token in zip((0, *path), committed, strict=False):
            processed = params.processed_logprobs
            scores = processed_scores(laws[row]) if processed else raw_scores(logits[row])
            entries.append(token_logprobs(scores, token, params.logprobs))
        self.entries[proposal] = tuple(entries)
        proposal.work.sequence.logprobs += entries
