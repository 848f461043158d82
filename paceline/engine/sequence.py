"""The live state of one request."""

from __future__ import annotations

import time
from dataclasses import dataclass

from paceline.cache import BlockPool, BlockTable
from paceline.chooser import Keyed
from paceline.drafters import DraftContext
from paceline.engine.settings import prediction_ids, setting_ids
from paceline.engine.stop import OutputText, ends
from paceline.engine.tally import Tally
from paceline.errors import PacelineError, RequestError
from paceline.models import Tokenizer
from paceline.plan.decision import Candidate
from paceline.sampling import History
from paceline.sampling.grammar import Matcher
from paceline.types import (
    FinishReason,
    Output,
    Request,
    Timing,
    TokenLogprobs,
)
from paceline.verify import Rule


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What ends any sequence of an engine."""

    max_model_len: int
    eos_ids: frozenset[int]


class Sequence:
    """A request from arrival to finish: its tokens, blocks, text, counters."""

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer,
        pool: BlockPool,
        limits: Limits,
        seed: int,
        matcher: Matcher | None = None,
    ) -> None:
        ids = setting_ids(request.params, tokenizer, limits.eos_ids)
        self.request, self.params, self.limits = request, request.params, limits
        self.tokens = list(request.prompt_ids)
        self.table = BlockTable(pool)
        self.computed = 0
        """Tokens whose keys and values are in the cache."""
        self.cached_tokens = 0
        """Tokens that the prefix cache spared on arrival."""
        self.preemptions = 0
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self.text = OutputText(tokenizer, request.params.stop)
        self.tally = Tally()
        self.history = History(self.tokens, len(self.tokens), ids, matcher)
        self._prediction = prediction_ids(request.speculation, tokenizer, limits.max_model_len)
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs | None] = [None]
        self._seed = seed
        self._started = self._first_token = self._last_token = 0.0

    rule: Rule
    drafters: tuple[str, ...]
    """Those it may use; the first one unless the controller chooses."""
    k: int | None
    """Its draft length; None leaves it to the controller."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt_ids)

    @property
    def output_tokens(self) -> int:
        """Tokens committed so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def pending(self) -> int:
        """Tokens that are not in the cache; 1 while decoding."""
        return len(self.tokens) - self.computed

    @property
    def decodes(self) -> bool:
        """Whether its next pass runs the token it committed last, and may draft."""
        return self.pending == 1 and self.output_tokens > 0

    @property
    def room(self) -> int:
        """How many drafted tokens could still be committed, the pass's own token aside."""
        left = self.params.max_tokens - self.output_tokens
        return max(0, min(left, self.limits.max_model_len - len(self.tokens)) - 1)

    def candidate(self) -> Candidate:
        """What a budget is settled from."""
        return Candidate(
            id=self.request.id,
            drafters=self.drafters,
            room=self.room,
            context_tokens=self.computed,
            k=self.k,
        )

    def chooser(self) -> Keyed:
        """The draws of the next pass."""
        return Keyed(self._seed, self.request.choice, self.output_tokens)

    def context(self) -> DraftContext:
        """What a drafter may see."""
        return DraftContext(
            request_id=self.request.id,
            owner=self.request.owner,
            tokens=self.tokens,
            prompt_tokens=self.prompt_tokens,
            params=self.params,
            rule=self.rule,
            chooser=self.chooser(),
            table=self.table,
            preemptions=self.preemptions,
            history=self.history,
            prediction=self._prediction,
        )

    def start(self) -> None:
        """Take over what the prefix cache holds of the tokens."""
        self._started = self._started or time.perf_counter()
        if self.params.prompt_logprobs is None:  # else every row of the prompt must be run
            self.computed = self.table.adopt_prefix(self.tokens)
        if not self.preemptions:
            self.cached_tokens = self.computed

    def preempt(self) -> None:
        """Give up every block; what was computed will be computed again."""
        self.table.release()
        self.computed = 0
        self.preemptions += 1

    def commit(self, tokens: tuple[int, ...], drafted: int) -> tuple[int, ...]:
        """Append tokens, the first `drafted` of them a draft's, until one of them ends the output.

        Returns those appended.
        """
        before = len(self.tokens)
        for place, token in enumerate(tokens):
            self.tokens.append(token)
            self.finish_reason = self._finish_after(token, drafted=place < drafted)
            if self.finish_reason:
                break
        committed = tokens[: len(self.tokens) - before]
        self._advance_grammar(committed)
        self._last_token = time.perf_counter()
        self._first_token = self._first_token or self._last_token
        return committed

    def fail(self, error: PacelineError) -> None:
        """End the output where it is, unless it has ended."""
        if self.finish_reason is None:
            self.finish(FinishReason.ERROR)
            self.error = str(error)

    def finish(self, reason: FinishReason) -> None:
        """End the output where it is."""
        self.finish_reason = reason
        self.text.finish()

    def _advance_grammar(self, committed: tuple[int, ...]) -> None:
        if self.history.matcher is None or self.finish_reason:
            return
        try:
            self.history.matcher.advance(committed)
        except RequestError as error:
            self.fail(error)

    def _finish_after(self, token: int, drafted: bool) -> FinishReason | None:
        """A stop outranks a length that the same token reaches."""
        may_stop = self.output_tokens >= self.params.min_tokens
        stopped = self.text.push(token, drafted, may_stop)
        ended = ends(token, self.params, self.limits.eos_ids)
        full = (
            self.output_tokens >= self.params.max_tokens
            or len(self.tokens) >= self.limits.max_model_len
        )
        if not stopped and (ended or full):
            stopped = self.text.finish()
        if stopped or ended:
            return FinishReason.STOP
        return FinishReason.LENGTH if full else None

    def _told_prompt(self) -> tuple[TokenLogprobs | None, ...] | None:
        wanted = self.params.prompt_logprobs is not None
        return tuple(self.prompt_logprobs) if wanted else None

    def output(self) -> Output:
        """The finished request's result."""
        assert self.finish_reason is not None
        return Output(
            request_id=self.request.id,
            text=self.text.text,
            token_ids=tuple(self.tokens[self.prompt_tokens :]),
            finish_reason=self.finish_reason,
            error=self.error,
            logprobs=tuple(self.logprobs) if self.params.logprobs is not None else None,
            prompt_logprobs=self._told_prompt(),
            choice=self.request.choice,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            drafter=self.tally.drafter or self.drafters[0],
            rule=self.rule.name,
            counts=self.tally.counts(),
            by_drafter=self.tally.by_drafter(),
            timing=Timing(
                prefill_s=max(0.0, self._first_token - self._started),
                decode_s=self._last_token - self._first_token,
            ),
        )
