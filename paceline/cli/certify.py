"""`paceline certify`: prove on this machine that speculation changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import defaults, options, sampling_options
from paceline.cli.progress import count_bar
from paceline.cli.prompts import read_prompts
from paceline.cli.session import first_turns, load
from paceline.errors import ConfigError
from paceline.types import SamplingParams

if TYPE_CHECKING:
    from paceline.certify.parity import ParityReport
    from paceline.engine.options import LLMOptions


def certify(
    parity: Annotated[
        bool,
        typer.Option("--parity", help="Same ids with speculation on and off, greedy or seeded."),
    ] = False,
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: options.K = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    kv_dtype: options.KVDtype = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = defaults.MAX_TOKENS,
    prompts: options.Prompts = None,
    batch: options.Batch = None,
    limit: options.Limit = None,
    raw: options.Raw = False,
    as_json: options.Json = False,
) -> None:
    """Run prompts with speculation on and off and compare token by token; a fork exits with 1.

    Without --prompts it runs twenty prompts of its own.
    """
    if not parity:
        raise ConfigError("Say what to certify: --parity.")
    if temperature > 0 and seed is None:
        raise ConfigError("Text is reproducible when greedy or seeded; add --seed N.")
    params = SamplingParams(temperature=temperature, seed=seed, max_tokens=max_tokens)
    given = read_prompts(prompts or own_prompts(), limit)
    batch = batch or defaults.BATCH
    settings: LLMOptions = {"k": k, "dtype": dtype, "device": device}
    settings |= {"kernels": kernels, "quantize": quantize, "kv_dtype": kv_dtype, "threads": threads}
    settings |= {"max_model_len": max_model_len}
    llm = load(model, draft, batch, **settings)
    from paceline.certify.parity import check_parity

    ids = first_turns(llm, given, raw, "to certify")
    with count_bar(len(ids), "prompts") as report:
        found = check_parity(llm, ids, params, batch=batch, progress=report)
    print(json.dumps(asdict(found)) if as_json else describe(found))
    if found.forks:
        raise typer.Exit(1)


def own_prompts() -> Path:
    """The prompts inside the package."""
    from importlib.resources import files

    return Path(str(files("paceline.certify") / "prompts.txt"))


def describe(found: ParityReport) -> str:
    """The report in lines of text."""
    lines = [
        f"prompt {fork.prompt + 1}: the texts part at output token {fork.position}"
        f" ({fork.token_on} with speculation, {fork.token_off} without;"
        f" the first logit led by {fork.margin:.2g}: {fork.verdict})"
        for fork in found.forks
    ]
    return "\n".join(
        (
            *lines,
            f"{found.prompts} prompts, {found.tokens} tokens, {len(lines) or 'no'} forks",
            f"acceptance rate {found.acceptance_rate:.3f},"
            f" {found.mean_committed_per_pass:.2f} tokens committed per pass",
            f"{found.seconds_on:.1f} s with speculation, {found.seconds_off:.1f} s without",
        )
    )
