"""`paceline bench`: measurements. `bench step`: the engine's own cost of one step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import (
    bench_drafters,
    bench_kernels,
    bench_offline,
    bench_online,
    bench_peers,
    bench_predict,
    bench_serve,
    defaults,
    options,
    sampling_options,
)
from paceline.types import SamplingParams

if TYPE_CHECKING:
    from paceline.bench.step import StepOverhead
    from paceline.engine.options import LLMOptions

bench = typer.Typer(help="Measure the engine.", no_args_is_help=True)
bench.command("kernels")(bench_kernels.kernels)
bench.command("rows")(bench_kernels.rows)
bench.command("peers")(bench_peers.peers)
bench.command("drafters")(bench_drafters.drafters)
bench.command("offline")(bench_offline.offline)
bench.command("online")(bench_online.online)
bench.command("predict")(bench_predict.predict)
bench.command("serve")(bench_serve.serve)


@bench.callback()
def group() -> None:
    """Measure the engine."""


@bench.command()
def step(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Tokens to draft per pass.")] = 4,
    kernels: options.Kernels = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = 256,
    as_json: options.Json = False,
) -> None:
    """Time a step at batch 1 without the models' passes and laws: what the engine adds.

    Without --draft: the model's own draft model and the drafters that look text up.
    """
    from paceline.bench.step import measure_step
    from paceline.cli.session import load

    params = SamplingParams(
        temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=True
    )
    settings: LLMOptions = {"k": k, "kernels": kernels, "threads": threads}
    settings |= {"max_model_len": max_model_len}
    drafts = defaults.bench_drafts_of(model, draft)
    llm = load(model, drafts, 1, **settings)
    measured = [measure_step(llm, defaults.BENCH_PROMPT, params, name, k) for name in drafts]
    if as_json:
        print(json.dumps({"drafters": [each.as_record() for each in measured]}))
    else:
        print_table(measured)


def print_table(measured: list[StepOverhead]) -> None:
    """A row a phase and a column a drafter; medians, the whole step's 90th percentile last."""
    from rich.console import Console
    from rich.table import Table

    table = Table("phase, ms", *(each.drafter for each in measured))
    for phase in measured[0].phases:
        table.add_row(phase, *(f"{each.phases[phase].median_ms:.3f}" for each in measured))
    table.add_section()
    table.add_row("whole step", *(f"{each.overhead.median_ms:.3f}" for each in measured))
    table.add_row("  90 % of steps", *(f"{each.overhead.p90_ms:.3f}" for each in measured))
    table.add_row("steps", *(str(each.steps) for each in measured))
    Console().print(table)
