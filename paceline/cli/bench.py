"""`paceline bench`: measurements. `bench step`: the engine's own cost of one step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from paceline.cli import defaults, options
from paceline.types import SamplingParams

if TYPE_CHECKING:
    from paceline.bench.step import StepOverhead
    from paceline.engine.options import LLMOptions

bench = typer.Typer(help="Measure the engine.", no_args_is_help=True)


@bench.callback()
def group() -> None:
    """Measure the engine."""


@bench.command()
def step(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: options.K = 4,
    kernels: options.Kernels = "torch",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: options.Temperature = defaults.TEMPERATURE,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = 256,
    as_json: options.Json = False,
) -> None:
    """Time a step at batch 1 without the models' passes and laws: what the engine adds."""
    from paceline.bench.step import measure_step
    from paceline.cli.session import load

    params = SamplingParams(
        temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=True
    )
    settings: LLMOptions = {"k": k, "kernels": kernels, "threads": threads}
    settings |= {"max_model_len": max_model_len}
    llm = load(model, draft, 1, **settings)
    measured = measure_step(llm, defaults.BENCH_PROMPT, params, k or 0)
    if as_json:
        print(json.dumps(measured.as_record()))
    else:
        print_table(measured)


def print_table(measured: StepOverhead) -> None:
    """A row a phase, the whole last."""
    from rich.console import Console
    from rich.table import Table

    print(f"{measured.steps} steps, drafter {measured.drafter}, k = {measured.k}")
    table = Table("phase", "median, ms", "90 %, ms")
    for phase, spread in (*measured.phases.items(), ("whole step", measured.overhead)):
        table.add_row(phase, f"{spread.median_ms:.3f}", f"{spread.p90_ms:.3f}")
    Console().print(table)
