"""Speculative beam search: exactly plain beam search's beams, several of its steps in one pass.

Each beam gets a draft tree, all trees are scored in one pass, and plain steps are then taken as far
as the rows of every beam that is kept were among those scored. What was drafted decides only how
many steps a pass is good for; scores are the target's own.

Beams share the keys and values of what they have in common: a beam is a list of slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from torch import Tensor

from paceline.cache import BlockPool, Slots
from paceline.engine.beam_drafts import NOWHERE, Beam, Speculator
from paceline.engine.scores import split_rows
from paceline.models import Tokenizer
from paceline.runtime import Rows, Runner, pack
from paceline.sampling.logprobs import raw_scores, token_logprobs
from paceline.sampling.pipeline import find_peaks
from paceline.tree import Draft
from paceline.types import BeamOutput, BeamSearchParams, FinishReason


@dataclass(frozen=True, eq=False)
class Candidate:
    """A beam within a pass: which one it grew from, by which rows of its tree and tokens."""

    beam: int
    logprob: float
    tokens: tuple[int, ...] = ()
    rows: tuple[int | None, ...] = ()
    """The row of each token; None for the last where it was not drafted."""

    @property
    def row(self) -> int | None:
        """The row whose logits say what may come next."""
        return self.rows[-1] if self.rows else 0


class SlotStore:
    """Slots of the engine's pool, handed out one by one and taken back together."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool, self._blocks = pool, list[int]()
        self._free: list[int] = []

    def take(self, number: int) -> Slots:
        """So many slots; raises CacheError where the pool has too few blocks."""
        size = self._pool.block_tokens
        blocks = self._pool.allocate(self._pool.blocks_for(max(0, number - len(self._free))))
        self._blocks += blocks
        self._free += [block * size + place for block in blocks for place in range(size)]
        taken, self._free = self._free[:number], self._free[number:]
        return np.array(taken, dtype=np.int64)

    def keep(self, held: Iterable[Slots]) -> None:
        """Take back every slot that is not held."""
        size, kept = self._pool.block_tokens, set(np.concatenate([NOWHERE, *held]).tolist())
        every = (block * size + place for block in self._blocks for place in range(size))
        self._free = [slot for slot in every if slot not in kept]

    def release(self) -> None:
        """Give all blocks back to the pool."""
        self._pool.release(self._blocks)
        self._blocks, self._free = [], []


class Search:
    """One prompt's search, pass by pass."""

    def __init__(
        self,
        runner: Runner,
        speculator: Speculator,
        params: BeamSearchParams,
        *,
        ends: frozenset[int],
        max_rows: int,
    ) -> None:
        self._runner, self._speculator, self._params = runner, speculator, params
        self._ends = frozenset() if params.ignore_eos else ends
        self._max_rows = max_rows
        self._slots, self._names = SlotStore(speculator.pool), count()
        self.passes = self.steps = self.proposed = 0
        self.ended: list[tuple[tuple[int, ...], float]] = []
        """(tokens, log-probability) of the beams that came to an end, in the order they did."""
        self.beams: list[Beam] = []

    def run(self, prompt: Sequence[int], max_tokens: int) -> None:
        """Grow the beams by `max_tokens` tokens, or until all have ended.

        Raises:
            CacheError: the cache is too small for them.
            ModelError: a beam came to where the model has no law.
        """
        try:
            self._prompt_tokens = len(prompt)
            self.beams = [self._prefilled(tuple(prompt))]
            while self.steps < max_tokens and self.beams:
                self._pass(max_tokens)
        finally:
            self._speculator.succeed(self.beams, [])
            self._slots.release()

    def _name(self) -> str:
        return f"beam {next(self._names)}"

    def _prefilled(self, tokens: tuple[int, ...]) -> Beam:
        """The first beam, all of its tokens but the last in the cache."""
        slots, last = self._slots.take(len(tokens) - 1), len(tokens) - 1
        for start in range(0, last, self._max_rows):
            stop = min(last, start + self._max_rows)
            rows = Rows(tokens=tokens[start:stop], start=start, slots=slots[:stop], logit_tokens=0)
            self._runner.forward(pack([rows]))
        return Beam(name=self._name(), tokens=tokens, slots=slots)

    def _pass(self, max_tokens: int) -> None:
        """Score the beams' trees, then take all the steps that this allows."""
        left, room = max_tokens - self.steps - 1, self._max_rows // len(self.beams) - 1
        k = min(self._speculator.k, left, room)
        nodes = min(room, k * self._params.beam_width) if k > 0 else 0
        own = [self._slots.take(1 + nodes) for _ in self.beams]
        drafts = self._speculator.drafts(self.beams, own, self._prompt_tokens, k)
        self.proposed += sum(map(len, drafts))
        self.passes += 1
        scores = self._scores(own, drafts)
        kept = [Candidate(place, beam.logprob) for place, beam in enumerate(self.beams)]
        while True:
            kept = self._step(kept, scores, drafts)
            if self.steps == max_tokens or any(one.row is None for one in kept) or not kept:
                break
        new = [self._grown(one, own[one.beam]) for one in kept]
        names = [self.beams[one.beam].name for one in kept]
        self._speculator.succeed(self.beams, list(zip(names, new, strict=True)))
        self.beams = new
        self._slots.keep(beam.slots for beam in new)

    def _scores(self, own: Sequence[Slots], drafts: Sequence[Draft]) -> list[Tensor]:
        """logits[1 + nodes, V] of each beam's last token and of its tree."""
        work = [
            Rows(
                tokens=beam.tokens[-1:],
                start=len(beam.tokens) - 1,
                slots=np.concatenate([beam.slots, slots[: 1 + len(draft)]]),
                draft=draft,
            )
            for beam, slots, draft in zip(self.beams, own, drafts, strict=True)
        ]
        logits = self._runner.forward(pack(work)).logits
        return split_rows(logits, [1 + len(draft) for draft in drafts])

    def _step(
        self, kept: Sequence[Candidate], logits: Sequence[Tensor], drafts: Sequence[Draft]
    ) -> list[Candidate]:
        """One step of plain beam search: the best of each beam's 2 W likeliest continuations.

        Among equals the better beam's goes first, then the likelier token, then the lower id.
        """
        self.steps += 1
        width, grown = self._params.beam_width, list[Candidate]()
        for one in kept:
            assert one.row is not None
            scores = self._log_law(logits[one.beam][one.row])
            children = drafts[one.beam].tree.children[one.row]
            for token, logprob in token_logprobs(scores, 0, 2 * width).top:
                tokens, total = (*one.tokens, token), one.logprob + logprob
                if token in self._ends:
                    self.ended.append((self.beams[one.beam].tokens + tokens, total))
                else:
                    rows = (*one.rows, children.get(token))
                    grown.append(Candidate(one.beam, total, tokens, rows))
        return sorted(grown, key=lambda one: -one.logprob)[:width]

    def _log_law(self, logits: Tensor) -> Tensor:
        """log softmax of logits[V] / temperature; raises ModelError where there is no law.

        The peak is off before the division, so that a tiny temperature cannot overflow.
        """
        below_peak = logits.double() - find_peaks(logits[None])[0].double()
        return raw_scores(below_peak / self._params.temperature)

    def _grown(self, one: Candidate, own: Slots) -> Beam:
        """The beam that a candidate becomes; the slots of its last token are not kept."""
        beam = self.beams[one.beam]
        run = [0, *(row for row in one.rows[:-1] if row is not None)]
        return Beam(
            name=self._name(),
            tokens=beam.tokens + one.tokens,
            logprob=one.logprob,
            slots=np.concatenate([beam.slots, own[run]]),
        )

    def best(self, tokenizer: Tokenizer) -> tuple[BeamOutput, ...]:
        """The best outputs, those that ended first among equals."""
        found = [
            *((tokens, logprob, FinishReason.STOP) for tokens, logprob in self.ended),
            *((beam.tokens, beam.logprob, FinishReason.LENGTH) for beam in self.beams),
        ]
        outputs = [self._output(tokenizer, *one) for one in found]
        ranked = sorted(outputs, key=lambda output: -output.score)
        return tuple(ranked[: self._params.beam_width])

    def _output(
        self, tokenizer: Tokenizer, tokens: tuple[int, ...], logprob: float, reason: FinishReason
    ) -> BeamOutput:
        length = len(tokens) - (reason is FinishReason.STOP)
        token_ids = tokens[self._prompt_tokens :]
        return BeamOutput(
            text=tokenizer.decode(token_ids),
            token_ids=token_ids,
            logprob=logprob,
            score=logprob / length**self._params.length_penalty,
            finish_reason=reason,
        )
