"""`paceline generate`, the default command: continue a prompt, or every prompt of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import defaults, options, sampling_options
from paceline.cli.beams import beam_params, print_beams
from paceline.cli.prompts import Prompt, compose, read_prompts
from paceline.cli.report import json_line, print_stats
from paceline.cli.session import answer, engine_options, load, prompt_ids
from paceline.cli.stream import show
from paceline.errors import ConfigError, RequestError
from paceline.types import Output, SamplingParams

if TYPE_CHECKING:
    from paceline.engine import LLM

Text = Annotated[
    str | None,
    typer.Argument(help="Text to continue or to answer; follows what standard input brings."),
]


def generate(
    prompt: Text = None,
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
    typical_p: sampling_options.TypicalP = 1.0,
    presence_penalty: sampling_options.Presence = 0.0,
    frequency_penalty: sampling_options.Frequency = 0.0,
    repetition_penalty: sampling_options.Repetition = 1.0,
    logit_bias: sampling_options.LogitBias = None,
    bad_word: sampling_options.BadWord = None,
    json_schema: sampling_options.JsonSchema = None,
    regex: sampling_options.Regex = None,
    grammar: sampling_options.GrammarFile = None,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = defaults.MAX_TOKENS,
    min_tokens: sampling_options.MinTokens = 0,
    stop: sampling_options.Stop = None,
    ignore_eos: sampling_options.IgnoreEos = False,
    logprobs: sampling_options.Logprobs = None,
    beams: options.Beams = None,
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

    A model with a chat template answers it as a user's message, unless --raw leaves that out.
    """
    given = dict(locals()) | {"k": defaults.length_of(draft, k)}
    params = sampling_options.sampling(given)
    refuse_conflicts(given)
    searched = beam_params(given, params) if beams else None
    asked = read_prompts(prompts, limit) if prompts else [compose(prompt, prompt_file)]
    llm = load(model, draft, batch or defaults.BATCH, **engine_options(given))
    if searched:
        print_beams(llm, prompt_ids(llm, asked[0], raw), searched, as_json)
    else:
        write(llm, asked, params, given)


def write(
    llm: LLM, asked: Sequence[Prompt], params: SamplingParams, given: Mapping[str, Any]
) -> None:
    """Write what is generated, and the statistics where they are wanted."""
    raw, batch = given["raw"], given["batch"] or defaults.BATCH
    if given["prompts"] or given["as_json"]:
        output = print_json(llm, answer(llm, asked, params, raw, batch))
    else:
        output = print_stream(llm, prompt_ids(llm, asked[0], raw), params, given["color"])
    if given["stats"]:
        print_stats(given["model"], output, llm.load_seconds)


def refuse_conflicts(given: Mapping[str, Any]) -> None:
    """Raise ConfigError where two of the options exclude each other or one needs another."""
    many, one, as_json = given["prompts"], given["prompt"] or given["prompt_file"], given["as_json"]
    complaints = {
        "--batch needs --prompts.": given["batch"] and not many,
        "--limit needs --prompts.": given["limit"] and not many,
        "--prompts stands alone: give no other prompt.": many and one,
        "--stats is for one prompt, not for --prompts.": many and given["stats"],
        "--color is for streamed text, not for JSON.": given["color"] and (many or as_json),
        "--logprobs needs --json or --prompts.": given["logprobs"] is not None
        and not (many or as_json),
    }
    for complaint, holds in complaints.items():
        if holds:
            raise ConfigError(complaint)


def print_stream(llm: LLM, ids: list[int], params: SamplingParams, color: bool) -> Output:
    """Write the text as it is committed; raises RequestError where it cannot go on."""
    with llm.stream(ids, params) as stream:
        show((span for delta in stream for span in delta.spans), color)
    assert stream.output is not None
    if stream.output.error:
        raise RequestError(stream.output.error)
    return stream.output


def print_json(llm: LLM, answers: Iterable[list[Output]]) -> Output:
    """Write one JSON line a prompt; return the last output."""
    for outputs in answers:
        print(json_line(outputs, llm.load_seconds), flush=True)
    return outputs[-1]
