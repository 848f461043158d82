"""The engine: requests in, deltas out, one pass a step."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Items
from contextlib import ExitStack

from paceline.config import EngineConfig
from paceline.drafters import OFF, PREDICTION, Drafter, Host
from paceline.engine.beam import Search
from paceline.engine.beam_drafts import DRAFTING, Speculator
from paceline.engine.loaded import LoadedDrafters
from paceline.engine.room import build_pool, context_of
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Limits, Sequence
from paceline.engine.settings import check_ids, check_structured
from paceline.engine.step import Step
from paceline.errors import RequestError, UnknownNameError
from paceline.models import LoadedModel
from paceline.plan.decision import BudgetFor, Candidate, Decision, Mode, Share
from paceline.plan.decision import Limits as DraftLimits
from paceline.runtime import Runner
from paceline.sampling.grammar import Grammars
from paceline.types import (
    BeamSearchOutput,
    BeamSearchParams,
    Delta,
    FinishReason,
    Output,
    Request,
    Speculation,
    StepStats,
)
from paceline.verify import choose_rule


class Engine:
    """Runs many requests on one target with the drafters loaded at start.

    `add` queues a request, `step` runs one pass and returns what it committed, `abort` ends a
    request at once. One that cannot go on ends with FinishReason.ERROR, and disturbs no other.
    `budget_for` settles what each step may draft, and `listeners` are called with its StepStats.
    Unless told otherwise, a request drafts as many tokens as it asks for, or its drafter's own k.
    """

    def __init__(self, model: LoadedModel, config: EngineConfig | None = None) -> None:
        self.model, self.config = model, config or EngineConfig()
        scheduler = self.config.scheduler
        self.max_model_len = context_of(self.config, model)
        self.pool = build_pool(self.config, model, self.max_model_len)
        self.listeners: list[Callable[[StepStats], None]] = []
        self.budget_for: BudgetFor = self._own_lengths
        self.limits = limits_of(self.config)
        num_slots = self.pool.num_blocks * self.pool.block_tokens
        runner = Runner.allocate(model, num_slots, self.config.cache.kv_dtype)
        self._drafters = LoadedDrafters.load(self.config.speculation, self._host(runner))
        self._scheduler = Scheduler(scheduler, self.pool)
        self._step = Step(
            self._scheduler,
            runner,
            self.pool,
            {name: loaded.live for name, loaded in self._drafters.items()},
            self._drafters.hidden_layers(),
        )
        spec = model.spec
        self._grammars = Grammars(model.tokenizer, spec.vocab_size, spec.eos_ids)
        self._sequences: dict[str, Sequence] = {}

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return any(True for _ in self._scheduler)

    @property
    def running_count(self) -> int:
        """Requests in the batch; any thread may ask."""
        return len(self._scheduler.running)

    @property
    def waiting_count(self) -> int:
        """Requests that wait for a place; any thread may ask."""
        return len(self._scheduler.waiting)

    def __contains__(self, request_id: str) -> bool:
        """Whether the request was added and its result not yet taken."""
        return request_id in self._sequences

    def add(self, request: Request) -> None:
        """Queue a request; raises RequestError if it cannot run."""
        if request.id in self._sequences:
            raise RequestError(f"A request '{request.id}' is running already; choose another id.")
        self._check_prompt(request.prompt_ids)
        params, asked = request.params, request.speculation
        check_ids(params, self.model.spec.vocab_size)
        if not isinstance(asked.prediction, str):
            self._check_vocabulary("predicted output", asked.prediction)
        check_structured(params)
        seed = params.seed if params.seed is not None else secrets.randbits(64)
        limits = Limits(max_model_len=self.max_model_len, eos_ids=self.model.spec.eos_ids)
        matcher = None
        if params.structured is not None:
            matcher = self._grammars.compile(params.structured).matcher()
        sequence = Sequence(request, self.model.tokenizer, self.pool, limits, seed, matcher)
        self._settle(sequence)
        self._sequences[request.id] = sequence
        self._scheduler.add(sequence)

    def beam_search(
        self, prompt_ids: tuple[int, ...], params: BeamSearchParams, asked: Speculation | None
    ) -> BeamSearchOutput:
        """Search at once, from the first pass to the last; requests that run wait meanwhile.

        Raises:
            RequestError: the prompt cannot run, the beams do not fit, or a rule or a prediction is
                asked for.
            CacheError: the cache is too small for them beside what runs.
            ModelError: the model's logits have no distribution at a beam.
        """
        self._check_prompt(prompt_ids)
        asked = asked or Speculation()
        if asked.rule or asked.prediction:
            given = f"the rule '{asked.rule}'" if asked.rule else "the prediction"
            raise RequestError(f"Beam search goes by scores alone; leave {given} out.")
        max_rows = self.config.scheduler.max_rows
        if params.beam_width > max_rows:
            raise RequestError(f"beam_width {params.beam_width} exceeds max_rows {max_rows}.")
        name = self._allowed(asked)[0]
        options, k = self._drafters[name].options, self._length(asked, name)
        speculator = Speculator(
            live=self._drafters[name].live,
            rule=choose_rule(None, DRAFTING, trees=options.needs.trees),
            k=options.k if k is None else k,
            pool=self.pool,
            width=params.beam_width,
        )
        ends = self.model.spec.eos_ids
        search = Search(self._step.runner, speculator, params, ends=ends, max_rows=max_rows)
        search.run(prompt_ids, min(params.max_tokens, self.max_model_len - len(prompt_ids)))
        return BeamSearchOutput(
            beams=search.best(self.model.tokenizer),
            prompt_tokens=len(prompt_ids),
            drafter=name,
            passes=search.passes,
            steps=search.steps,
            proposed=search.proposed,
        )

    def step(self, owner: str | None = None) -> list[Delta]:
        """Run one pass; a failed pass ends every request and leaves the pool idle.

        The requests of one `owner` alone, if it is given; the others wait meanwhile.
        """
        ids = [sequence.request.id for sequence in self._scheduler]
        try:
            deltas, stats = self._step.run(self.budget_for, owner)
        except BaseException:
            with ExitStack() as aborts:  # all of them, whatever else fails
                for request_id in ids:
                    aborts.callback(self.abort, request_id)
            raise
        for listener in self.listeners:
            listener(stats)
        return deltas

    def take(self, request_id: str) -> Output:
        """The result of a finished request, which the engine then forgets."""
        output = self._sequences[request_id].output()
        del self._sequences[request_id]
        return output

    def abort(self, request_id: str) -> Output:
        """End a request at once and free its blocks; return what it had."""
        sequence = self._sequences.get(request_id)
        if sequence is None:
            raise UnknownNameError("request", request_id, self._sequences)
        if sequence.finish_reason is None:
            sequence.finish(FinishReason.ABORT)
        output = self.take(request_id)
        if sequence in self._scheduler:
            self._step.release(sequence)
        return output

    def _check_prompt(self, prompt_ids: tuple[int, ...]) -> None:
        if not prompt_ids:
            raise RequestError("The prompt is empty; give at least one token.")
        if len(prompt_ids) >= self.max_model_len:
            raise RequestError(
                f"The prompt has {len(prompt_ids)} tokens, but the context holds"
                f" {self.max_model_len}; shorten it to {self.max_model_len - 1} or fewer."
            )
        self._check_vocabulary("prompt", prompt_ids)

    def _check_vocabulary(self, what: str, ids: tuple[int, ...]) -> None:
        size = self.model.spec.vocab_size
        if not all(0 <= token < size for token in ids):
            raise RequestError(f"A {what} id is not in 0 .. {size - 1}.")

    def _settle(self, sequence: Sequence) -> None:
        """Drafters, rule and draft length of a new sequence."""
        asked, params = sequence.request.speculation, sequence.params
        rule = asked.rule or self.config.speculation.rule
        names = self._drafters.verifiable(self._allowed(asked), rule)
        k = self._length(asked, names[0])
        if k is not None:
            names = names[:1]
        trees = any(self._drafters[name].options.needs.trees for name in names)
        sequence.drafters, sequence.k = names, k
        sequence.rule = choose_rule(rule, params, trees=trees)
        if k is None and sequence.rule.sampled and params.seed is not None:
            # Its text depends on drafter and length, so the seed holds only while both are fixed.
            sequence.drafters, sequence.k = names[:1], self._drafters[names[0]].options.k

    @property
    def drafters(self) -> Mapping[str, Drafter]:
        """The options of the drafters that were loaded, by option string."""
        return {name: loaded.options for name, loaded in self._drafters.items()}

    def _allowed(self, asked: Speculation) -> tuple[str, ...]:
        """The drafters a request may use; the one it names, or all that might help it."""
        if asked.drafter is not None:
            return (self._drafters.resolve(asked.drafter),)
        guessed = self._drafters.named(PREDICTION)[:1] if asked.prediction else ()
        names = (*guessed, *self.config.speculation.drafts)
        return tuple(dict.fromkeys(names)) or (OFF,)

    def _length(self, asked: Speculation, name: str) -> int | None:
        """The draft length that is fixed; None where it is left to the controller."""
        if name == OFF:
            return 0
        lengths = (asked.k, self.config.speculation.k, self._drafters[name].options.k)
        fixed = next(k for k in lengths if k is not None)
        return None if isinstance(fixed, str) else fixed

    def _own_lengths(self, requests: Items[Candidate], prefill_rows: int) -> Decision:
        """The budgets where no controller steers."""
        del prefill_rows
        shares, ceiling = {}, self.limits.ceiling(len(requests))
        for one in requests:
            own = self._drafters[one.drafters[0]].options.k
            wanted = own if one.k is None else one.k
            shares[one.id] = Share(one.drafters[0], min(wanted, ceiling))
        why = "pinned: no controller steers"
        return Decision(shares=shares, mode=Mode.PINNED, reason=why, speedup=None)

    def _host(self, runner: Runner) -> Host:
        return Host(
            target=self.model,
            kv=runner.kv,
            pool=self.pool,
            max_rows=self.config.scheduler.max_rows,
            device=self.config.device,
            kernels=self.config.kernels,
        )


def limits_of(config: EngineConfig) -> DraftLimits:
    """What the operator lets be drafted."""
    schedule = tuple((requests, k) for requests, k in config.speculation.max_k)
    return DraftLimits(by_batch=schedule, max_rows=config.scheduler.max_rows)
