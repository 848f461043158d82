"""The engine: requests in, deltas out, one pass a step."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.cache import BlockPool
from paceline.config import CacheConfig, EngineConfig
from paceline.drafters import OFF, PREDICTION, Drafter, Host, LiveDrafter, drafters
from paceline.engine.beam import Search
from paceline.engine.beam_drafts import DRAFTING, Speculator
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Limits, Sequence
from paceline.engine.settings import check_ids, check_structured
from paceline.engine.step import Step
from paceline.errors import ConfigError, RequestError, UnknownNameError
from paceline.models import LoadedModel
from paceline.registry import OptionString
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


@dataclass(frozen=True, eq=False)
class Loaded:
    """A drafter at work and the options it was built from."""

    options: Drafter
    live: LiveDrafter


class Engine:
    """Runs many requests on one target with the drafters loaded at start.

    `add` queues a request, `step` runs one pass and returns what it committed, `abort` ends a
    request at once. One that cannot go on ends with FinishReason.ERROR, and disturbs no other.
    `listeners` are called with the StepStats of every step.
    """

    def __init__(self, model: LoadedModel, config: EngineConfig | None = None) -> None:
        self.model, self.config = model, config or EngineConfig()
        scheduler = self.config.scheduler
        self.max_model_len = context_of(self.config, model)
        self.pool = build_pool(self.config, model, self.max_model_len)
        self.listeners: list[Callable[[StepStats], None]] = []
        self._drafters = self._load_drafters()
        self._default = next(iter(self.config.speculation.drafts), OFF)
        self._scheduler = Scheduler(scheduler, self.pool)
        self._step = Step(
            self._scheduler,
            Runner(
                model,
                self.pool.num_blocks * self.pool.block_tokens,
                self.config.cache.kv_dtype,
            ),
            self.pool,
            {name: loaded.live for name, loaded in self._drafters.items()},
            self._hidden_layers(),
        )
        spec = model.spec
        self._grammars = Grammars(model.tokenizer, spec.vocab_size, spec.eos_ids)
        self._sequences: dict[str, Sequence] = {}

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return any(True for _ in self._scheduler)

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
        name = self._resolve(asked.drafter or (PREDICTION if asked.prediction else None))
        options = self._drafters[name].options
        seed = params.seed if params.seed is not None else secrets.randbits(64)
        limits = Limits(max_model_len=self.max_model_len, eos_ids=self.model.spec.eos_ids)
        matcher = None
        if params.structured is not None:
            matcher = self._grammars.compile(params.structured).matcher()
        sequence = Sequence(request, self.model.tokenizer, self.pool, limits, seed, matcher)
        rule = asked.rule or self.config.speculation.rule
        sequence.rule = choose_rule(rule, params, trees=options.needs.trees)
        sequence.k = self._draft_length(name, asked)
        sequence.drafter = name
        self._sequences[request.id] = sequence
        self._scheduler.add(sequence)

    def beam_search(
        self, prompt_ids: tuple[int, ...], params: BeamSearchParams, asked: Speculation | None
    ) -> BeamSearchOutput:
        """Search at once, from the first pass to the last; requests that run wait meanwhile.

        Raises:
            RequestError: the prompt cannot run, or the beams do not fit.
            CacheError: the cache is too small for them beside what runs.
        """
        self._check_prompt(prompt_ids)
        asked = asked or Speculation()
        max_rows = self.config.scheduler.max_rows
        if params.beam_width > max_rows:
            raise RequestError(f"beam_width {params.beam_width} exceeds max_rows {max_rows}.")
        name = self._resolve(asked.drafter)
        speculator = Speculator(
            live=self._drafters[name].live,
            rule=choose_rule(None, DRAFTING, trees=self._drafters[name].options.needs.trees),
            k=self._draft_length(name, asked),
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

    def _draft_length(self, name: str, asked: Speculation) -> int:
        """The request's k, else the configuration's, else the drafter's own."""
        lengths = (asked.k, self.config.speculation.k, self._drafters[name].options.k)
        return next(k for k in lengths if k is not None) if name != OFF else 0

    def step(self) -> list[Delta]:
        """Run one pass; a failed pass ends every request and leaves the pool idle."""
        try:
            deltas, stats = self._step.run(lambda sequence: sequence.k)
        except BaseException:
            for sequence in list(self._scheduler):
                self.abort(sequence.request.id)
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
        if sequence in self._scheduler:
            self._scheduler.remove(sequence)
            self._drafters[sequence.drafter].live.release(request_id)
        return self.take(request_id)

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

    def _resolve(self, asked: str | None) -> str:
        """The loaded drafter a request means: an option string, or a drafter's name if unique."""
        name = asked or self._default
        if name in self._drafters:
            return name
        matches = [known for known in self._drafters if OptionString.parse(known).name == name]
        if len(matches) != 1:
            raise UnknownNameError("loaded drafter", name, self._drafters)
        return matches[0]

    def _load_drafters(self) -> Mapping[str, Loaded]:
        host = Host(
            target=self.model,
            pool=self.pool,
            max_rows=self.config.scheduler.max_rows,
            device=self.config.device,
            kernels=self.config.kernels,
        )
        loaded = {}
        for text in dict.fromkeys((*self.config.speculation.drafts, OFF, PREDICTION)):
            options = parse_drafter(text)
            if options.k < 0:
                raise ConfigError(f"The drafter '{text}' wants k >= 0, not {options.k}.")
            loaded[text] = Loaded(options, options.build(host))
        return loaded

    def _hidden_layers(self) -> tuple[int, ...]:
        needed = (loaded.options.needs.hidden_layers for loaded in self._drafters.values())
        return tuple(sorted({layer for layers in needed for layer in layers}))


def parse_drafter(text: str) -> Drafter:
    """Drafter options from NAME[:ARG][:key=value]… or from the path of a .py file."""
    option = OptionString.parse(text)
    path = Path(option.name)
    kind = drafters.load_file(path) if path.suffix == ".py" else drafters[option.name]
    options: Drafter = option.build(kind, "drafter")
    return options


def context_of(config: EngineConfig, model: LoadedModel) -> int:
    """The longest context in tokens: as configured, or as much of the model's as the cache holds.

    Raises:
        ConfigError: more than the model's is asked for.
    """
    asked, own = config.scheduler.max_model_len, model.spec.max_model_len
    if asked is None:
        return min(own, affordable_blocks(config.cache, model) * config.cache.block_tokens)
    if asked > own:
        raise ConfigError(
            f"max_model_len must be 1 to {own}, the context of {model.name}, not {asked}."
        )
    return asked


def affordable_blocks(cache: CacheConfig, model: LoadedModel) -> int:
    """How many blocks of the model's keys and values fit, at least one."""
    if cache.num_blocks is not None:
        return cache.num_blocks
    token_bytes = model.kv_bytes_per_token(cache.kv_dtype)
    return max(1, cache.max_bytes // (token_bytes * cache.block_tokens))


def build_pool(config: EngineConfig, model: LoadedModel, max_model_len: int) -> BlockPool:
    """Size the pool: enough for every request's context, within the memory allowed for it."""
    cache = config.cache
    context_blocks = -(-max_model_len // cache.block_tokens)
    wanted = config.scheduler.max_num_requests * context_blocks
    num_blocks = cache.num_blocks or min(wanted, affordable_blocks(cache, model))
    if num_blocks < context_blocks:
        raise ConfigError(
            f"The cache holds {num_blocks * cache.block_tokens} tokens, fewer than one context of"
            f" {max_model_len}; lower --max-model-len or raise the cache's size."
        )
    return BlockPool(num_blocks, cache.block_tokens, cache.prefix_caching)
