"""`paceline generate`, the default command: continue a prompt, or every prompt of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import defaults, options
from paceline.cli.prompts import compose, read_prompts
from paceline.cli.report import json_line, print_stats
from paceline.cli.session import answer, load, written
from paceline.cli.stream import show
from paceline.errors import ConfigError
from paceline.types import Output, SamplingParams

if TYPE_CHECKING:
    from paceline.engine import LLM
    from paceline.engine.options import LLMOptions


def generate(
    prompt: Annotated[
        str | None,
        typer.Argument(help="Text to continue or to answer; follows what standard input brings."),
    ] = None,
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: options.K = None,
    rule: options.Rule = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    kv_dtype: options.KVDtype = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: options.Temperature = defaults.TEMPERATURE,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = defaults.MAX_TOKENS,
    stop: options.Stop = None,
    prompt_file: options.PromptFile = None,
    prompts: options.Prompts = None,
    batch: options.Batch = None,
    limit: options.Limit = None,
    raw: options.Raw = False,
    color: options.Color = False,
    stats: options.Stats = False,
    as_json: options.Json = False,
) -> None:
    """Continue a prompt (the default command: its name may be left out).

    A model with a chat template answers the prompt as a user's message;
    --raw leaves the template out. The text streams to standard output.
    """
    params = options.sampling(temperature, top_p, top_k, min_p, seed, max_tokens, stop)
    refuse(
        {
            "--batch needs --prompts.": batch and not prompts,
            "--limit needs --prompts.": limit and not prompts,
            "--prompts stands alone: give no other prompt.": prompts and (prompt or prompt_file),
            "--stats is for one prompt, not for --prompts.": prompts and stats,
            "--color is for streamed text, not for JSON.": color and (prompts or as_json),
        }
    )
    given = read_prompts(prompts, limit) if prompts else [compose(prompt, prompt_file)]
    batch = batch or defaults.BATCH
    settings: LLMOptions = {"k": k, "rule": rule, "dtype": dtype, "device": device}
    settings |= {"kernels": kernels, "quantize": quantize, "kv_dtype": kv_dtype, "threads": threads}
    settings |= {"max_model_len": max_model_len}
    llm = load(model, draft, batch, **settings)
    if prompts or as_json:
        output = print_json(llm, answer(llm, given, params, raw, batch))
    else:
        output = print_stream(llm, written(llm, given[0], raw), params, color)
    if stats:
        print_stats(model, output, llm.load_seconds)


def refuse(complaints: Mapping[str, object]) -> None:
    """Raise ConfigError for the first complaint that holds."""
    for complaint, holds in complaints.items():
        if holds:
            raise ConfigError(complaint)


def print_stream(llm: LLM, text: str, params: SamplingParams, color: bool) -> Output:
    """Write the text as it is committed."""
    with llm.stream(text, params) as stream:
        show((span for delta in stream for span in delta.spans), color)
    assert stream.output is not None
    return stream.output


def print_json(llm: LLM, answers: Iterable[list[Output]]) -> Output:
    """Write one JSON line a prompt; return the last output."""
    for outputs in answers:
        print(json_line(outputs, llm.load_seconds), flush=True)
    return outputs[-1]
