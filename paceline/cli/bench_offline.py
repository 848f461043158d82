"""`paceline bench offline`: drafting off, automatic and at fixed lengths, beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import (
    bench_options,
    bench_report,
    defaults,
    options,
    plan_options,
    sampling_options,
)
from paceline.cli.bench_report import setting_of, tell
from paceline.cli.progress import count_bar
from paceline.cli.prompts import sizes_of
from paceline.cli.session import load
from paceline.errors import ConfigError
from paceline.types import AUTO, SamplingParams

if TYPE_CHECKING:
    from paceline.bench.change import ChangePlan
    from paceline.bench.policies import Cell, Plan
    from paceline.engine import LLM


def offline(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: Annotated[
        str | None, typer.Option("--k", help="Fixed lengths to compare with: 1,2,4,8.")
    ] = None,
    batch: plan_options.Batches = "1",
    kind: bench_options.Kinds = None,
    dataset: bench_options.Datasets = None,
    prompts_per_kind: bench_options.PromptsPerKind = 3,
    change: Annotated[
        str | None,
        typer.Option(
            "--change",
            help="KIND:KIND, edit:chat say: requests of one kind, then of the other; passes 20 to "
            "40 after the change are compared.",
        ),
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Runs of each policy in each cell.")] = 20,
    max_tokens: sampling_options.MaxTokens = 256,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    quick: bench_options.Quick = False,
    kernels: options.Kernels = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    plan: options.Plan = None,
    as_json: options.Json = False,
    markdown: bench_report.Markdown = None,
    plot: bench_report.Plot = None,
) -> None:
    """Decode with drafting off, automatic and (--k) fixed, abreast; a finding that fails exits 1.

    The decode phase counts; prompts and what drafters take to read them are told apart.
    """
    given = dict(locals())
    if temperature > 0 and seed is None:
        raise ConfigError("The policies must write the same text: give --seed with a temperature.")
    if change is not None:
        given["kind"] = kinds_of_change(change)
        check_change(given)
    llm = load_all(given)
    asked = plan_of(llm, given)
    from paceline.bench.change import measure_change, report_change
    from paceline.bench.offline import report
    from paceline.bench.policies import measure

    if change is None:
        cells = run(lambda: measure(llm, asked), asked.runs)
        tell(report(cells, setting_of(llm)), given)
    else:
        stream = change_of(asked)
        (cell,) = run(lambda: measure_change(llm, stream), stream.runs)
        tell(report_change(cell, setting_of(llm)), given)


def kinds_of_change(text: str) -> list[str]:
    """KIND:KIND as two kinds; raises ConfigError."""
    kinds = text.split(":")
    if len(kinds) != 2 or kinds[0] == kinds[1]:
        raise ConfigError(f"--change wants two kinds like edit:chat, not '{text}'.")
    return kinds


def check_change(given: Mapping[str, Any]) -> None:
    """Refuse what a stream of single requests cannot be."""
    if given["batch"] != "1" or given["k"] is None:
        raise ConfigError("--change compares single requests with fixed lengths: give --k 1,2,4,8.")


def load_all(given: Mapping[str, Any]) -> LLM:
    """The model with its drafters, for all policies at the largest batch side by side."""
    from paceline.bench.policies import policies_of
    from paceline.cli.defaults import drafts_of

    names = ("kernels", "threads", "max_model_len", "plan")
    settings: Any = {name: given[name] for name in names if given.get(name) is not None}
    abreast = len(policies_of(drafts_of(given["model"], given["draft"]), lengths_of(given)))
    requests = abreast * max(sizes_of(given["batch"]))
    return load(given["model"], given["draft"], requests, k=AUTO, **settings)


def lengths_of(given: Mapping[str, Any]) -> list[int]:
    """The fixed lengths that are asked for."""
    return sizes_of(given["k"]) if given["k"] else []


def plan_of(llm: LLM, given: Mapping[str, Any]) -> Plan:
    """What is run; raises ConfigError where there is no prompt."""
    from paceline.bench.policies import Plan, policies_of
    from paceline.bench.workloads import ids_of

    turns, tokens = bench_options.size_of(given)
    found, drafts = bench_options.prompts_of(given), llm.config.speculation.drafts
    return Plan(
        prompts={kind: [ids_of(llm, kind, p) for p in prompts] for kind, prompts in found.items()},
        batches=sizes_of(given["batch"]),
        policies=policies_of(drafts, lengths_of(given)),
        turns=turns,
        params=SamplingParams(
            temperature=given["temperature"],
            seed=given["seed"],
            max_tokens=tokens,
            ignore_eos=True,
        ),
    )


def change_of(plan: Plan) -> ChangePlan:
    """The same as a stream that changes from its first kind to its second."""
    from paceline.bench.change import ChangePlan

    (first, before), (second, after) = plan.prompts.items()
    return ChangePlan(
        kinds=(first, second),
        before=before,
        after=after,
        policies=plan.policies,
        turns=plan.turns,
        params=plan.params,
    )


def run(cells: Callable[[], Iterator[Cell | int]], runs: int) -> list[Cell]:
    """Measure every cell, with a bar."""
    found, done = list[Any](), 0
    with count_bar(runs, "runs") as report:
        for cell in cells():
            if isinstance(cell, int):
                done += cell
                report(done)
            else:
                found.append(cell)
    return found
