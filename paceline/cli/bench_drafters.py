"""`paceline bench drafters`: what each drafter is worth on each kind of prompt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import defaults, options, sampling_options
from paceline.cli.session import load
from paceline.types import SamplingParams

if TYPE_CHECKING:
    from paceline.bench.drafters import Drafted
    from paceline.engine.options import LLMOptions


def drafters(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Kind of prompts; repeatable, all by default.")
    ] = None,
    k: options.K = None,
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = 96,
    as_json: options.Json = False,
) -> None:
    """Compare drafters: tokens per pass, acceptance by depth, cost, speed over plain decoding.

    Without --draft: every drafter that the model needs nothing else for.
    """
    from paceline.bench.drafters import measure_drafters
    from paceline.bench.prompt_kinds import KINDS
    from paceline.cli.progress import total_bar
    from paceline.errors import UnknownNameError

    for name in kind or ():
        if name not in KINDS:
            raise UnknownNameError("kind of prompts", name, KINDS)
    settings: LLMOptions = {"k": k, "kernels": kernels, "quantize": quantize, "threads": threads}
    settings |= {"max_model_len": max_model_len}
    names = draft or list(defaults.compared_drafts_of(model))
    llm = load(model, names, 1, **settings)
    params = SamplingParams(
        temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=True
    )
    kinds = {name: KINDS[name] for name in kind or KINDS}
    with total_bar("drafters") as report:
        measured = measure_drafters(llm, names, kinds, params, report)
    if as_json:
        print(json.dumps({"drafters": [each.as_record() for each in measured]}))
    else:
        print_table(measured)


def print_table(measured: list[Drafted]) -> None:
    """A row a kind and drafter."""
    from rich.console import Console
    from rich.table import Table

    table = Table("kind", "drafter", "tokens/pass", "acceptance by depth", "draft ms", "tok/s", "×")
    kind = ""
    for each in measured:
        if kind and each.kind != kind:
            table.add_section()
        kind = each.kind
        table.add_row(
            each.kind,
            each.drafter,
            f"{each.tokens_per_pass:.2f}",
            " ".join(f"{rate:.2f}" for rate in each.per_position[:6]),
            f"{each.draft_ms:.2f}",
            f"{each.tokens_per_s:.1f}",
            f"{each.speedup:.2f}" + ("" if each.same_text else " (other text)"),
        )
    Console().print(table)
