"""`paceline bench peers`: other engines beside ours, in tokens per second or by their passes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import bench_options, bench_report, defaults, options, sampling_options
from paceline.cli.bench_kernels import (
    CONTEXT,
    Context,
    load_native,
    parse_rows,
    passes_of,
    print_table,
    use_cores,
)
from paceline.cli.progress import count_bar
from paceline.cli.session import engine_options, load
from paceline.types import AUTO, SamplingParams

if TYPE_CHECKING:
    from paceline.bench.peers.race import Contender, Job, Race
    from paceline.engine import LLM

LLAMA = "llama.cpp"
SLACK_TOKENS = 64
"""Room that an engine's drafts may need beyond the text."""


def peers(
    model: options.Model,
    draft: options.Draft = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            "--engine",
            help="llama.cpp[:bin=PATH], openvino, transformers[:python=PATH:model=DIR:draft=DIR], "
            "vllm[:bin=PATH:model=DIR:draft=DIR]; repeatable. Those that are here.",
        ),
    ] = None,
    binary: Annotated[
        str | None,
        typer.Option("--bin", help="A llama-server, or its folder; with --rows a llama-bench."),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Requests at once.")] = 1,
    kind: bench_options.Kinds = None,
    dataset: bench_options.Datasets = None,
    prompts_per_kind: bench_options.PromptsPerKind = 3,
    turns: Annotated[int, typer.Option(min=1, help="Turns of each engine.")] = 3,
    max_tokens: sampling_options.MaxTokens = 128,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    quick: bench_options.Quick = False,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows", help="Time passes of so many rows instead: 1,5,8,16.", metavar="N[,N...]"
        ),
    ] = None,
    context: Context = CONTEXT,
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    plan: options.Plan = None,
    as_json: options.Json = False,
    markdown: bench_report.Markdown = None,
    plot: bench_report.Plot = None,
) -> None:
    """Decode the same prompts by turns with every engine that is here; --rows times passes alone.

    Paceline runs as it would: drafters and lengths by its controller. An engine that is not here
    is left out, and the report says why.
    """
    given = dict(locals())
    compare_speeds(given) if rows is None else compare_passes(given)


def compare_speeds(given: Mapping[str, Any]) -> None:
    """Decode by turns with the engines that are here, and tell what came of it."""
    from paceline.bench.peers.engines import ENGINES, enter
    from paceline.bench.peers.ours import contenders
    from paceline.bench.peers.ratios import report
    from paceline.bench.setting import Setting
    from paceline.bench.workloads import ids_of

    turns, tokens = bench_options.size_of(given)
    texts = bench_options.prompts_of(given)
    settings = engine_options(given)
    settings["k"] = AUTO
    llm = load(given["model"], given["draft"], given["batch"], **settings)
    prompts = {name: [ids_of(llm, name, p) for p in own] for name, own in texts.items()}
    longest = max(len(ids) for own in prompts.values() for ids in own)
    asked = [with_bin(text, given["binary"]) for text in given["engine"] or ENGINES]
    entered, versions, skipped = enter(asked, job_of(llm, given, longest + tokens))
    params = SamplingParams(temperature=given["temperature"], seed=given["seed"], ignore_eos=True)
    everyone = [*contenders(llm, params), *entered]
    race = run(everyone, prompts, (tokens, turns, given["batch"]))
    setting = Setting.of(llm, bench_report.command_line(), versions)
    bench_report.tell(report(race, everyone, skipped, setting), given)


def with_bin(text: str, binary: str | None) -> str:
    """An engine's option string with the program of --bin, where it is that engine's."""
    return f"{text}:bin={binary}" if binary and text == LLAMA else text


def job_of(llm: LLM, given: Mapping[str, Any], tokens: int) -> Job:
    """What every engine is to do; a draft model is the first that --draft has a file of."""
    from paceline.bench.peers.race import Job
    from paceline.drafters.parse import parse_drafter, parts
    from paceline.kernels.machine import cores
    from paceline.models.pull import resolve

    drafts = llm.config.speculation.drafts
    options = [one for text in drafts for one in parts(parse_drafter(text))]
    models = [name for one in options if isinstance(name := getattr(one, "model", None), str)]
    return Job(
        model=llm.model.path,
        draft=resolve(models[0]) if models else None,
        threads=given["threads"] or cores(),
        context_tokens=tokens + SLACK_TOKENS,
        temperature=given["temperature"],
        seed=given["seed"] or 0,
        batch=given["batch"],
    )


def run(
    everyone: Sequence[Contender],
    prompts: Mapping[str, Sequence[Sequence[int]]],
    size: tuple[int, int, int],
) -> Race:
    """Race, with a bar; `size` is tokens, turns and batch."""
    from paceline.bench.peers.race import run_race

    _, turns, _ = size
    with count_bar(len(everyone) * len(prompts) * turns, "groups") as progress:
        for done, race in enumerate(run_race(everyone, prompts, *size), start=1):
            if race is not None:
                return race
            progress(done)
    raise AssertionError("a race ends with its results")


def compare_passes(given: Mapping[str, Any]) -> None:
    """Time passes over a GGUF file by turns with llama.cpp's."""
    from paceline.bench.peers.passes import PASSES, Workload, compare, find_llama_cpp
    from paceline.errors import ConfigError, UnknownNameError

    for name in given["engine"] or ():
        if name != LLAMA:
            raise UnknownNameError("engine for --rows", name, (LLAMA,))
    wanted, used = parse_rows(given["rows"]), use_cores(given["threads"])
    loaded = load_native(given["model"])
    if loaded.path.is_dir():
        raise ConfigError(f"{LLAMA} reads GGUF files, and {loaded.path} is a folder.")
    context = given["context"]
    workload = Workload(model=Path(loaded.path), rows=wanted, context=context, threads=used)
    peer = find_llama_cpp(workload, given["binary"])
    passes = passes_of(loaded, wanted, context, PASSES)
    found = compare(lambda: [cost.ms for cost in passes()[0]], peer, wanted, given["turns"])
    if given["as_json"]:
        print(json.dumps({"engine": LLAMA, "rows": [each.as_record() for each in found]}))
        return
    print_table(
        ("rows", "paceline, ms", f"{LLAMA}, ms", "ratio"),
        [
            (str(each.rows), f"{each.ms:.2f}", f"{each.peer_ms:.2f}", f"{each.ratio:.2f}")
            for each in found
        ],
    )
