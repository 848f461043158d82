"""`paceline bench online`: requests that arrive at random, drafting on and off by turns."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import bench_options, bench_report, defaults, options, sampling_options
from paceline.cli.bench_serve import ApiKey
from paceline.cli.progress import count_bar
from paceline.cli.session import engine_options, load
from paceline.errors import ConfigError, UnknownNameError
from paceline.types import AUTO, SamplingParams

if TYPE_CHECKING:
    from paceline.bench.arrivals import Load, Way, Window
    from paceline.bench.setting import Setting

SERVED = "The server's one controller hears both ways, and its prefix cache keeps the prompts."


def online(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Ask a running server; no model is loaded here.")
    ] = None,
    api_key: ApiKey = None,
    rate: Annotated[str, typer.Option("--rate", help="Requests a second: 0.5,1,2.")] = "1",
    arrivals: Annotated[
        list[str] | None,
        typer.Option("--arrivals", help="poisson or bursty; repeatable. Both."),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="Requests of a window.")] = 32,
    turns: Annotated[int, typer.Option(min=1, help="Windows with drafting off, and on.")] = 3,
    slo_ttft_ms: Annotated[
        float, typer.Option("--slo-ttft-ms", min=0, help="Longest wait for a first token.")
    ] = math.inf,
    slo_itl_ms: Annotated[
        float, typer.Option("--slo-itl-ms", min=0, help="Longest time per token after it.")
    ] = math.inf,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Most requests at once.")] = 16,
    kind: bench_options.Kinds = None,
    dataset: bench_options.Datasets = None,
    prompts_per_kind: bench_options.PromptsPerKind = 3,
    max_tokens: sampling_options.MaxTokens = 128,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    seed: sampling_options.Seed = None,
    kernels: options.Kernels = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    plan: options.Plan = None,
    as_json: options.Json = False,
    markdown: bench_report.Markdown = None,
    plot: bench_report.Plot = None,
) -> None:
    """Send requests at random times: waits, time per token, goodput; drafting off and on by turns.

    Every other request is another kind's prompt. A server by --url is asked for completions of the
    prompts as they are, without a chat template.
    """
    given = dict(locals())
    from paceline.bench.online_report import report
    from paceline.plan.workload import Slo

    asked = load_of(given)
    texts = bench_options.prompts_of(given)
    run = of_engine if url is None else of_server
    windows, setting, notes = run(given, texts, asked)
    slo = Slo(ttft_ms=slo_ttft_ms, ms_per_token=slo_itl_ms)
    bench_report.tell(report(windows, slo, setting, notes), given)


def load_of(given: Mapping[str, Any]) -> Load:
    """What is sent; raises ConfigError."""
    from paceline.bench.arrivals import PATTERNS, Load

    if given["max_tokens"] < 2:
        raise ConfigError("One token has no time per token; give --max-tokens of 2 or more.")
    patterns = given["arrivals"] or list(PATTERNS)
    for name in patterns:
        if name not in PATTERNS:
            raise UnknownNameError("kind of arrivals", name, PATTERNS)
    try:
        rates = [float(part) for part in given["rate"].split(",")]
    except ValueError as error:
        raise ConfigError(f"--rate wants numbers like 0.5,1,2, not '{given['rate']}'.") from error
    for one in rates:
        PATTERNS[patterns[0]](1, one)  # raises where it is no rate
    return Load(rates=rates, patterns=patterns, requests=given["requests"], turns=given["turns"])


def of_engine(
    given: Mapping[str, Any], texts: Mapping[str, Sequence[str]], asked: Load
) -> tuple[list[Window], Setting, Sequence[str]]:
    """Load a model and send the requests to its engine."""
    from paceline.bench.asking import in_process
    from paceline.bench.workloads import ids_of
    from paceline.engine import AsyncLLM

    settings = engine_options(given)
    settings["k"] = AUTO
    llm = load(given["model"], given["draft"], given["batch"], **settings)
    by_kind = [[ids_of(llm, kind, text) for text in own] for kind, own in texts.items()]
    params = SamplingParams(
        temperature=given["temperature"],
        seed=given["seed"],
        max_tokens=given["max_tokens"],
        ignore_eos=True,
    )

    async def run() -> list[Window]:
        async with AsyncLLM(llm) as engine:
            return await collect(in_process(engine, params), mixed(by_kind), asked)

    return asyncio.run(run()), bench_report.setting_of(llm), ()


def of_server(
    given: Mapping[str, Any], texts: Mapping[str, Sequence[str]], asked: Load
) -> tuple[list[Window], Setting, Sequence[str]]:
    """Send the requests to a server."""
    from paceline.bench.asking import of_server as ways_of
    from paceline.bench.http_client import Client
    from paceline.bench.setting import Setting

    client = Client(given["url"], given["api_key"])
    body = {"max_tokens": given["max_tokens"], "temperature": given["temperature"]}
    body |= {"ignore_eos": True} | ({} if given["seed"] is None else {"seed": given["seed"]})

    async def run() -> tuple[list[Window], Any]:
        (served,) = json.loads(await client.get("/v1/models"))["data"]
        ways = ways_of(client, body | {"model": served["id"]})
        return await collect(ways, mixed(list(texts.values())), asked), served

    windows, served = asyncio.run(run())
    told = {"model": served["id"], "drafts": served.get("drafters", ())}
    setting = Setting.here(command=bench_report.command_line(), **told)
    return windows, setting, (SERVED,)


async def collect(ways: Sequence[Way[Any]], prompts: Sequence[Any], asked: Load) -> list[Window]:
    """All windows, with a bar."""
    from paceline.bench.arrivals import run_load

    found = []
    with count_bar(asked.windows, "windows") as progress:
        async for window in run_load(ways, prompts, asked):
            found.append(window)
            progress(len(found))
    return found


def mixed(kinds: Sequence[Sequence[Any]]) -> list[Any]:
    """The first prompt of each kind, then the second of each, as far as all have one."""
    return [prompt for turn in zip(*kinds, strict=False) for prompt in turn]
