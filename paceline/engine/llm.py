"""`LLM`: load a model, generate, chat, stream."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Unpack

import torch

from paceline.config import EngineConfig
from paceline.engine.engine import Engine
from paceline.engine.options import LLMOptions, configure
from paceline.engine.prompts import Conversation, Prompt, as_conversations, as_prompts, spread
from paceline.engine.steering import steer
from paceline.errors import RequestError
from paceline.kernels.library import available, use_threads
from paceline.models import Progress, load_model, render_chat
from paceline.types import Delta, Output, Request, SamplingParams, Speculation
from paceline.types.beam import BeamSearchOutput, BeamSearchParams
from paceline.values import conform

FAILED = "The request ended with a pass that failed; send it again."


class LLM:
    """A model with its drafters, ready to generate; several threads may call it at once.

    Args:
        model: an alias (`paceline models`), a hub id, a folder or a GGUF file.
        draft: option strings of the drafters to load. The first one is the default; with k="auto"
            the engine chooses one, and how many tokens it drafts, step by step.
        config: the whole configuration; `options` override single fields of it.
        progress: called with (done, total, what) while the model is pulled and loaded.
        options: k, max_k, plan, rule, dtype, kernels, quantize, kv_dtype, device,
            threads, max_model_len, max_num_requests.

    Raises:
        PacelineError: the model, a drafter or an option cannot be used.
    """

    def __init__(
        self,
        model: str = "mini",
        *,
        draft: str | Sequence[str] = (),
        config: EngineConfig | None = None,
        progress: Progress | None = None,
        **options: Unpack[LLMOptions],
    ) -> None:
        started = time.perf_counter()
        self.config = configure(config, draft, options)
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
            if available():
                use_threads(self.config.threads)
        self.model = load_model(
            model,
            dtype=self.config.dtype,
            device=self.config.device,
            kernels=self.config.kernels,
            quantize=self.config.quantize,
            progress=progress,
        )
        self.tokenizer = self.model.tokenizer
        self.engine = Engine(self.model, self.config)
        steer(self.engine)
        self.load_seconds = time.perf_counter() - started
        self._ids = count()
        self._lock = threading.RLock()
        self._inboxes: dict[str, deque[Delta]] = {}

    @property
    def has_chat_template(self) -> bool:
        """Whether the model says how messages are written."""
        return self.tokenizer.chat_template is not None

    def render(self, messages: Conversation) -> str:
        """Write messages as the model's chat template has them, up to the assistant's turn.

        Raises:
            RequestError: the model has no chat template, or it refuses the messages.
        """
        return render_chat(self.tokenizer, messages)

    def encode(self, text: str, *, rendered: bool = False) -> list[int]:
        """The ids of a prompt; special tokens written out in it are meant.

        What a chat template `rendered` has all of them; other text gets those it begins with.
        """
        return self.tokenizer.encode(text, add_special=not rendered, parse_special=True)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        speculation: Speculation | None = None,
    ) -> list[Output]:
        """Continue each prompt (text as it is, or ids); outputs come in the order of prompts.

        A prompt with `n` samples has n outputs, one after the other, each its own `choice`.
        One that cannot go on has finish_reason "error" and says why in `error`.

        Raises:
            RequestError: one of the prompts cannot run; then none does.
        """
        batch = as_prompts(prompts)
        settings = spread(params, len(batch))
        streams: list[Stream] = []
        try:
            for prompt, setting in zip(batch, settings, strict=True):
                for choice in range(setting.n):
                    streams.append(self._start(prompt, setting, speculation, choice))
            return [stream.finish() for stream in streams]
        finally:
            for stream in streams:
                stream.close()

    def chat(
        self,
        messages: Conversation | Sequence[Conversation],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        speculation: Speculation | None = None,
    ) -> list[Output]:
        """Answer a conversation, or each of several."""
        rendered = [self.render(conversation) for conversation in as_conversations(messages)]
        prompts = [self.encode(text, rendered=True) for text in rendered]
        return self.generate(prompts, params, speculation=speculation)

    def beam_search(
        self,
        prompt: Prompt,
        params: BeamSearchParams | None = None,
        *,
        speculation: Speculation | None = None,
    ) -> BeamSearchOutput:
        """The best continuations of one prompt, as plain beam search finds them in more passes.

        Other threads' requests wait for its end.

        Raises:
            RequestError: the prompt cannot run.
        """
        params = conform("params", params, BeamSearchParams | None, RequestError)
        asked = conform("speculation", speculation, Speculation | None, RequestError)
        ids = self._one(prompt, "A beam search")
        with self._lock:
            return self.engine.beam_search(ids, params or BeamSearchParams(), asked)

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        speculation: Speculation | None = None,
    ) -> Stream:
        """Continue one prompt, delta by delta; several streams share the engine's passes.

        Raises:
            RequestError: the prompt cannot run, or more than one sample of it is asked for.
        """
        (setting,) = spread(conform("params", params, SamplingParams | None, RequestError), 1)
        if setting.n != 1:
            raise RequestError(f"A stream is one sample, not n = {setting.n}; use generate().")
        return self._start(self._one(prompt, "A stream"), setting, speculation, choice=0)

    def _one(self, prompt: Prompt, what: str) -> tuple[int, ...]:
        """The ids of what must be a single prompt."""
        batch: list[Prompt] = as_prompts(prompt) or [()]
        if len(batch) != 1:
            raise RequestError(f"{what} is of one prompt, not {len(batch)}; use generate().")
        return tuple(self.encode(batch[0]) if isinstance(batch[0], str) else batch[0])

    def _start(
        self, prompt: Prompt, params: SamplingParams, speculation: Speculation | None, choice: int
    ) -> Stream:
        ids = self.encode(prompt) if isinstance(prompt, str) else prompt
        request = Request(
            id=str(next(self._ids)),
            prompt_ids=tuple(ids),
            params=params,
            speculation=conform("speculation", speculation, Speculation | None, RequestError)
            or Speculation(),
            choice=choice,
        )
        with self._lock:
            self.engine.add(request)
            self._inboxes[request.id] = deque()
        return Stream(self, request.id)

    def _next(self, request_id: str) -> Delta:
        """The request's next delta; steps the engine until there is one."""
        inbox = self._inboxes[request_id]
        with self._lock:
            while not inbox:
                if request_id not in self.engine:
                    raise RequestError(FAILED)
                for delta in self.engine.step():
                    self._inboxes[delta.request_id].append(delta)
        return inbox.popleft()

    def _end(self, request_id: str) -> Output | None:
        """The request's output; it is aborted if it still runs. None if its pass failed."""
        with self._lock:
            self._inboxes.pop(request_id, None)
            return self.engine.abort(request_id) if request_id in self.engine else None


class Stream:
    """The deltas of one request. `output` is its result once it is exhausted or closed.

    Leaving a loop over it, or a `with` block, aborts what still runs; after next() call close().
    """

    def __init__(self, llm: LLM, request_id: str) -> None:
        self._llm, self._id, self._open = llm, request_id, True
        self.output: Output | None = None

    def __iter__(self) -> Iterator[Delta]:
        """The deltas as they are committed; leaving early aborts the request."""
        try:
            while self._open:
                yield next(self)
        finally:
            self.close()

    def __next__(self) -> Delta:
        """The next delta; raises StopIteration once the request has ended."""
        if not self._open:
            raise StopIteration
        delta = self._llm._next(self._id)
        if delta.finish_reason:
            self.close()
        return delta

    def finish(self) -> Output:
        """Run to the end and return the result; raises RequestError where a pass failed."""
        for _ in self:
            pass
        if self.output is None:
            raise RequestError(FAILED)
        return self.output

    def close(self) -> None:
        """End the request if it still runs."""
        if self._open:
            self._open = False
            self.output = self._llm._end(self._id)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
