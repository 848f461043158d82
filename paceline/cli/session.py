"""A loaded model, and prompts run through it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Unpack

from paceline.cli import defaults
from paceline.cli.progress import byte_bar
from paceline.cli.prompts import Prompt
from paceline.types import Output, SamplingParams

if TYPE_CHECKING:
    from paceline.engine import LLM
    from paceline.engine.options import LLMOptions
    from paceline.models import Message


ENGINE_OPTIONS = (
    *("k", "max_k", "plan", "rule", "dtype", "device", "kernels", "quantize", "kv_dtype"),
    *("threads", "max_model_len"),
)
"""Options of commands that are options of LLM."""


def engine_options(given: Mapping[str, Any]) -> LLMOptions:
    """The engine's among a command's options."""
    return {name: given[name] for name in ENGINE_OPTIONS if given.get(name) is not None}  # type: ignore[return-value]


def load(model: str, draft: list[str] | None, batch: int, **settings: Unpack[LLMOptions]) -> LLM:
    """Load a model and its drafters for `batch` requests at once; raises PacelineError."""
    from paceline.engine import LLM

    drafts = defaults.drafts_of(model, draft)
    settings["max_num_requests"] = batch
    with byte_bar() as report:
        return LLM(model, draft=drafts, progress=report, **settings)


def prompt_ids(llm: LLM, prompt: Prompt, raw: bool) -> list[int]:
    """The first turn as the model reads it; raises RequestError where it needs a template."""
    if raw or not llm.has_chat_template:
        return llm.encode(prompt.text)
    return llm.encode(llm.render(prompt.turns[0]), rendered=True)


def first_turns(llm: LLM, prompts: Sequence[Prompt], raw: bool, why: str) -> list[list[int]]:
    """The first turns as the model reads them; where there are later ones, stderr says `why` not.

    Raises:
        RequestError: as `prompt_ids` does.
    """
    ids = []
    for prompt in prompts:
        with prompt.named():
            ids.append(prompt_ids(llm, prompt, raw))
    if longer := sum(len(prompt.turns) > 1 for prompt in prompts):
        print(
            f"paceline: {why}, only the first turn is run: {longer} of {len(prompts)} prompts have"
            " more.",
            file=sys.stderr,
        )
    return ids


def answer(
    llm: LLM, prompts: Sequence[Prompt], params: SamplingParams, raw: bool, batch: int
) -> Iterator[list[Output]]:
    """Run the prompts, `batch` at a time; yield each one's outputs, one a turn, in order.

    Later turns need a chat template: without one only the first is run, and stderr says so.
    """
    chats = llm.has_chat_template and not raw
    if chats and any(len(prompt.turns) > 1 for prompt in prompts):
        for start in range(0, len(prompts), batch):
            yield from converse(llm, prompts[start : start + batch], params)
        return
    # The engine runs `batch` of them at once and takes in the next as one ends.
    first = first_turns(llm, prompts, raw, "without a chat template")
    for output in complete(llm, prompts, first, params):
        yield [output]


def complete(
    llm: LLM, prompts: Sequence[Prompt], ids: Sequence[list[int]], params: SamplingParams
) -> Iterator[Output]:
    """Continue the ids of each prompt, all together; yield the outputs in order.

    Raises:
        RequestError: one of the prompts, which it names, cannot run; then none does.
    """
    with ExitStack() as stack:
        streams = []
        for prompt, own in zip(prompts, ids, strict=True):
            with prompt.named():
                streams.append(stack.enter_context(llm.stream(own, params)))
        for stream in streams:
            yield stream.finish()


def converse(llm: LLM, prompts: Sequence[Prompt], params: SamplingParams) -> list[list[Output]]:
    """Run conversations together, each with its own replies in its later turns."""
    outputs: list[list[Output]] = [[] for _ in prompts]
    histories: list[list[Message]] = [[] for _ in prompts]
    for turn in range(max(len(prompt.turns) for prompt in prompts)):
        active = [i for i, prompt in enumerate(prompts) if turn < len(prompt.turns)]
        asked, ids = [prompts[i] for i in active], []
        for i in active:
            histories[i] += prompts[i].turns[turn]
            with prompts[i].named():
                ids.append(llm.encode(llm.render(histories[i]), rendered=True))
        for i, output in zip(active, complete(llm, asked, ids, params), strict=True):
            outputs[i].append(output)
            histories[i].append({"role": "assistant", "content": output.text})
    return outputs
