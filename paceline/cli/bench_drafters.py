"""`paceline bench drafters`: what each drafter is worth on each kind of prompt."""

from __future__ import annotations

from paceline.cli import bench_options, bench_report, defaults, options, sampling_options
from paceline.cli.bench_report import setting_of, tell
from paceline.cli.session import engine_options, load
from paceline.types import SamplingParams


def drafters(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    kind: bench_options.Kinds = None,
    dataset: bench_options.Datasets = None,
    prompts_per_kind: bench_options.PromptsPerKind = 2,
    k: options.K = None,
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = 96,
    as_json: options.Json = False,
    markdown: bench_report.Markdown = None,
    plot: bench_report.Plot = None,
) -> None:
    """Compare drafters: tokens per pass, acceptance by depth, cost, speed over plain decoding.

    Without --draft: every drafter that the model needs nothing else for.
    """
    given = dict(locals())
    from paceline.bench.drafters import measure_drafters, report
    from paceline.bench.workloads import ids_of
    from paceline.cli.progress import total_bar

    found = bench_options.prompts_of(given)
    names = draft or list(defaults.compared_drafts_of(model))
    llm = load(model, names, 1, **engine_options(given))
    params = SamplingParams(
        temperature=temperature, seed=seed, max_tokens=max_tokens, ignore_eos=True
    )
    kinds = {name: [ids_of(llm, name, p) for p in prompts] for name, prompts in found.items()}
    with total_bar("drafters") as progress:
        measured = measure_drafters(llm, names, kinds, params, progress)
    tell(report(measured, setting_of(llm)), given)
