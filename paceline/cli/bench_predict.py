"""`paceline bench predict`: the throughput model beside what is measured."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paceline.cli import (
    bench_options,
    bench_report,
    defaults,
    options,
    plan_options,
    sampling_options,
)
from paceline.cli.bench_offline import load_all, plan_of
from paceline.cli.bench_report import setting_of, tell
from paceline.cli.progress import total_bar
from paceline.cli.prompts import sizes_of
from paceline.errors import ConfigError

QUICK_LENGTHS = 2
FEWEST_PROMPTS = 4


def predict(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: Annotated[str, typer.Option("--k", help="Draft lengths.")] = "1,2,4,8",
    batch: plan_options.Batches = "1,4,16",
    kind: bench_options.Kinds = None,
    dataset: bench_options.Datasets = None,
    prompts_per_kind: bench_options.PromptsPerKind = 2,
    max_tokens: sampling_options.MaxTokens = 128,
    quick: bench_options.Quick = False,
    kernels: options.Kernels = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    as_json: options.Json = False,
    markdown: bench_report.Markdown = None,
) -> None:
    """Predict each drafter's speed by length and batch from the other cells; failing exits 1."""
    given: dict[str, Any] = dict(locals())
    given |= {"temperature": 0.0, "seed": None, "turns": 1, "k": None}
    lengths = sizes_of(k)[-QUICK_LENGTHS:] if quick else sizes_of(k)
    given["draft"] = list(defaults.drafts_of(model, draft))
    if not given["draft"] or min(lengths) < 1:
        raise ConfigError("There is nothing to predict: give --draft, and --k of 1 or more.")
    llm = load_all(given)
    asked = plan_of(llm, given)
    prompts = interleaved(asked.prompts.values())
    if len(prompts) < FEWEST_PROMPTS:
        raise ConfigError(
            f"Each half of the prompts must be {FEWEST_PROMPTS // 2} or more to tell how they"
            f" spread: {len(prompts)} is too few, take more kinds or --prompts-per-kind."
        )
    from paceline.bench.predict import predict as predict_all
    from paceline.bench.predict import report, run_cells

    with total_bar("runs") as progress:
        cells = run_cells(llm, prompts, asked.batches, lengths, asked.params, progress)
    sequential = {name: llm.engine.drafters[name].needs.sequential for name in given["draft"]}
    tell(report(predict_all(cells, sequential), setting_of(llm)), given)


def interleaved(kinds: Any) -> list[list[int]]:
    """One prompt of each kind, then the next of each: both halves hold all kinds."""
    return [list(prompt) for turn in zip(*kinds, strict=False) for prompt in turn]
