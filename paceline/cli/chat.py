"""`paceline chat`: a conversation on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paceline.cli import defaults, options, sampling_options
from paceline.cli.generate import print_stream
from paceline.cli.prompts import user
from paceline.cli.report import print_stats
from paceline.cli.session import engine_options, load
from paceline.errors import ConfigError
from paceline.types import SamplingParams

if TYPE_CHECKING:
    from paceline.engine import LLM
    from paceline.models import Message

RESET, QUIT = "/reset", "/quit"


def chat(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: options.K = None,
    max_k: options.MaxK = None,
    plan: options.Plan = None,
    rule: options.Rule = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    kv_dtype: options.KVDtype = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    top_p: sampling_options.TopP = 1.0,
    top_k: sampling_options.TopK = 0,
    min_p: sampling_options.MinP = 0.0,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = defaults.CHAT_MAX_TOKENS,
    stop: sampling_options.Stop = None,
    color: options.Color = False,
    stats: options.Stats = False,
) -> None:
    """Talk with a model that has a chat template.

    /reset forgets the conversation, /quit or Ctrl-D ends it, Ctrl-C cuts a reply short.
    """
    given = dict(locals()) | {"k": defaults.length_of(draft, k)}
    params = sampling_options.sampling(given)
    llm = load(model, draft, 1, **engine_options(given))
    if not llm.has_chat_template:
        raise ConfigError(
            f"{model} has no chat template, so it cannot chat; use paceline generate, or --model "
            "with an instruction-tuned model."
        )
    converse(llm, model, params, color=color, stats=stats)


def converse(llm: LLM, model: str, params: SamplingParams, *, color: bool, stats: bool) -> None:
    """Answer each line of standard input, with all that was said before it."""
    history: list[Message] = []
    for line in read_lines():
        if line == RESET:
            history.clear()
            continue
        history.append(user(line))
        try:
            ids = llm.encode(llm.render(history), rendered=True)
            output = print_stream(llm, ids, params, color)
        except KeyboardInterrupt:
            history.pop()
            continue
        history.append({"role": "assistant", "content": output.text})
        if stats:
            print_stats(model, output, llm.load_seconds)


def read_lines() -> Iterator[str]:
    """The lines a user types, blank ones left out, up to /quit or the end of input."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            return
        if line == QUIT:
            return
        if line:
            yield line
