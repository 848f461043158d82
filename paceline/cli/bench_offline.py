"""`paceline bench offline`: drafting off, automatic and at fixed lengths, beside each other."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import defaults, options, plan_options, sampling_options
from paceline.cli.progress import count_bar
from paceline.cli.prompts import sizes_of
from paceline.cli.session import load
from paceline.errors import ConfigError
from paceline.types import AUTO, SamplingParams

if TYPE_CHECKING:
    from paceline.bench.policies import Cell, Plan
    from paceline.bench.setting import BenchReport, Setting
    from paceline.engine import LLM

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="complete, edit, extract, chat or maths; repeatable. All of them."),
]
Datasets = Annotated[
    list[Path] | None,
    typer.Option("--dataset", help="Prompts of HumanEval or Spec-Bench, before Paceline's own."),
]
Out = Annotated[Path | None, typer.Option("--out", help="A folder for the report and its figures.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few minutes: 2 turns of 48 tokens.")]
QUICK_TURNS, QUICK_TOKENS = 2, 48


def offline(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: Annotated[
        str | None, typer.Option("--k", help="Fixed lengths to compare with: 1,2,4,8.")
    ] = None,
    batch: plan_options.Batches = "1",
    kind: Kinds = None,
    dataset: Datasets = None,
    prompts_per_kind: Annotated[int, typer.Option(min=1)] = 3,
    turns: Annotated[int, typer.Option(min=1, help="Runs of each policy in each cell.")] = 20,
    max_tokens: sampling_options.MaxTokens = 256,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    quick: Quick = False,
    kernels: options.Kernels = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    plan: options.Plan = None,
    as_json: options.Json = False,
    out: Out = None,
) -> None:
    """Decode with drafting off, automatic and (--k) fixed, by turns; a finding that fails exits 1.

    The decode phase counts; prompts and what drafters take to read them are told apart.
    """
    given = dict(locals())
    if temperature > 0 and seed is None:
        raise ConfigError("The policies must write the same text: give --seed with a temperature.")
    llm = load_all(given)
    cells = run(llm, plan_of(llm, given))
    from paceline.bench.offline import report

    tell(report(cells, setting_of(llm)), as_json, out, "offline")


def load_all(given: Mapping[str, Any]) -> LLM:
    """The model with its drafters, for the largest batch; drafters choose their length by auto."""
    names = ("kernels", "threads", "max_model_len", "plan")
    settings: Any = {name: given[name] for name in names if given.get(name) is not None}
    sizes = sizes_of(given["batch"])
    return load(given["model"], given["draft"], max(sizes), k=AUTO, **settings)


def plan_of(llm: LLM, given: Mapping[str, Any]) -> Plan:
    """What is run; raises ConfigError where there is no prompt."""
    from paceline.bench.policies import Plan, policies_of
    from paceline.bench.workloads import KINDS, by_kind, dataset_tasks, ids_of, own_tasks

    tasks = [task for path in given["dataset"] or [] for task in dataset_tasks(path)]
    found = by_kind([*tasks, *own_tasks()], given["kind"] or KINDS, given["prompts_per_kind"])
    quick, drafts = given["quick"], llm.config.speculation.drafts
    tokens, turns = given["max_tokens"], given["turns"]
    return Plan(
        prompts={kind: [ids_of(llm, kind, p) for p in prompts] for kind, prompts in found.items()},
        batches=sizes_of(given["batch"]),
        policies=policies_of(drafts, sizes_of(given["k"]) if given["k"] else []),
        turns=min(turns, QUICK_TURNS) if quick else turns,
        params=SamplingParams(
            temperature=given["temperature"],
            seed=given["seed"],
            max_tokens=min(tokens, QUICK_TOKENS) if quick else tokens,
            ignore_eos=True,
        ),
    )


def run(llm: LLM, plan: Plan) -> list[Cell]:
    """Measure every cell, with a bar."""
    from paceline.bench.policies import measure

    cells, done = list[Any](), 0
    with count_bar(plan.runs, "runs") as report:
        for cell in measure(llm, plan):
            if cell is None:
                done += 1
                report(done)
            else:
                cells.append(cell)
    return cells


def setting_of(llm: LLM) -> Setting:
    """What stands above the figures."""
    from paceline.bench.setting import Setting

    return Setting.of(llm, shlex.join(["paceline", *sys.argv[1:]]))


def tell(report: BenchReport, as_json: bool, out: Path | None, name: str) -> None:
    """Show it, write it where that is wanted; a finding that fails exits with 1."""
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.json").write_text(json.dumps(report.as_record(), indent=1), "utf-8")
        (out / f"{name}.md").write_text(report.as_markdown(), "utf-8")
    print(json.dumps(report.as_record())) if as_json else show(report)
    if not all(finding.holds for finding in report.findings):
        raise typer.Exit(1)


def show(report: BenchReport) -> None:
    """The setting, the tables, the findings."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for line in report.setting.lines():
        console.print(line, markup=False)
    for one in report.tables:
        table = Table(*one.header, title=one.title)
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
    for note in report.notes:
        console.print(note, markup=False)
    for finding in report.findings:
        console.print(str(finding), style="" if finding.holds else "bold red", markup=False)
