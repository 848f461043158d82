"""`paceline plan`: what to run, measured here or (--simulate) on paper."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from paceline.cli import defaults, options, plan_options, sampling_options
from paceline.cli.plan_here import plan_here
from paceline.cli.plan_options import LONGEST
from paceline.cli.prompts import lines_of, parse_json, sizes_of
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from paceline.plan.emit import Setup
    from paceline.plan.paper import Pair, PaperPlan
    from paceline.plan.workload import Report

HERE, PAPER = "1,4,16", "1,4,16,64"
"""Batch sizes: measured ones cost time."""
DRAFTER = "drafts"
"""What the one drafter of a plan on paper is called."""
MOST_SERVED = 2**23
"""Tokens of all requests over time, which take minutes to simulate."""


def plan(
    ctx: typer.Context,
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    prompts: options.Prompts = None,
    limit: options.Limit = None,
    raw: options.Raw = False,
    max_tokens: sampling_options.MaxTokens = 64,
    kernels: options.Kernels = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    batch: plan_options.Batches = "",
    out: plan_options.Out = None,
    device: plan_options.Device = None,
    target_params: plan_options.TargetParams = None,
    draft_params: plan_options.DraftParams = "0",
    target_bits: plan_options.TargetBits = 16,
    draft_bits: plan_options.DraftBits = 16,
    alpha: plan_options.Alpha = None,
    trace: plan_options.Trace = None,
    context: plan_options.Context = 0,
    kv_bytes: plan_options.KVBytes = 0,
    max_k: plan_options.MaxK = 16,
    emit: plan_options.Emit = None,
    target: plan_options.Target = None,
    rate: plan_options.Rate = None,
    bursty: plan_options.Bursty = False,
    requests: plan_options.Count = 200,
    prompt_tokens: plan_options.Count = 256,
    output_tokens: plan_options.Count = 128,
    seed: plan_options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Measure here which drafter and draft length to run, by batch size, and say why.

    With --simulate it is answered on paper, for hardware that is not at hand.
    """
    given = dict(locals())
    plan_options.refuse_unread(given, options.named_of(ctx))
    if device is None:
        plan_here(given, sizes_of(batch or HERE))
        return
    pair = pair_of(given)
    from paceline.plan.devices import device as find
    from paceline.plan.paper import plan_on_paper

    traces = read_traces(trace) if trace else []
    alphas = alpha or (rates_of(traces, max_k) if traces else [0.7])
    found = plan_on_paper(find(device), pair, alphas, sizes_of(batch or PAPER), context, max_k)
    if emit is not None:
        setup = setup_of(found, pair, target or "TARGET", draft[0] if draft else "DRAFT")
        print_for(emit, setup)
        return
    served: dict[str, Report] = {}
    if rate is not None:
        check_load(requests * (prompt_tokens + output_tokens))
        times = times_of(requests, rate, bursty, seed)
        load = load_of(times, prompt_tokens, output_tokens, traces, alphas)
        served = serve(found, load, seed)
    typer.echo(json.dumps(as_record(found, served))) if as_json else show(found, served)


def pair_of(given: Mapping[str, Any]) -> Pair:
    """The two models on paper; raises ConfigError where options are missing or contradict."""
    from paceline.plan.paper import Pair, parse_count

    if given["target_params"] is None:
        raise ConfigError("--simulate needs the target's size: --target-params 7B, say.")
    return Pair(
        target_params=parse_count(given["target_params"]),
        draft_params=parse_count(given["draft_params"]),
        target_bits=given["target_bits"],
        draft_bits=given["draft_bits"],
        kv_bytes_per_token=given["kv_bytes"],
    )


def check_load(tokens: int) -> None:
    """Refuse requests that would take all day to simulate."""
    if tokens > MOST_SERVED:
        raise ConfigError(
            f"--rate serves at most {MOST_SERVED} tokens; give fewer --requests or shorter ones."
        )


def print_for(engine: str, setup: Setup) -> None:
    """Print the setup as another engine is told it."""
    from paceline.plan.emit import emit

    typer.echo(emit(engine, setup))


def read_traces(path: Path) -> list[Any]:
    """One trace a line; raises ConfigError naming the line that is none."""
    from paceline.plan.traces import trace_of

    traces = [trace_of(parse_passes(line, where)) for line, where in lines_of(path)]
    if not traces:
        raise ConfigError(f"{path} holds no trace.")
    return traces


def parse_passes(line: str, where: str) -> list[tuple[int, int]]:
    """(proposed, accepted) of every pass, one with a draft among them; raises ConfigError."""
    passes = parse_json(line, where)
    if isinstance(passes, list) and all(map(is_pass, passes)) and any(map(any, passes)):
        return [(proposed, accepted) for proposed, accepted in passes]
    raise ConfigError(
        f"{where} is no list of [proposed, accepted] pairs with a draft among them "
        f"(0 <= accepted <= proposed <= {LONGEST})."
    )


def is_pass(pair: Any) -> bool:
    """Whether it is [proposed, accepted]."""
    match pair:
        case [int(proposed), int(accepted)]:
            return 0 <= accepted <= proposed <= LONGEST
    return False


def rates_of(traces: list[Any], max_k: int) -> list[float]:
    """Acceptance by position over all traces together."""
    from paceline.plan.traces import rate_by_position

    agrees = [agrees for trace in traces for agrees in trace.agrees]
    return rate_by_position(agrees, max(1, max_k))


def times_of(requests: int, rate: float, bursty: bool, seed: int) -> list[float]:
    """When requests arrive, in milliseconds."""
    from paceline.plan.workload import bursty_ms, poisson_ms

    return (bursty_ms if bursty else poisson_ms)(requests, rate, seed=seed)


def load_of(
    times_ms: list[float],
    prompt_tokens: int,
    output_tokens: int,
    traces: list[Any],
    alphas: list[float],
) -> list[Any]:
    """A request for each time, whose drafts fare by the traces in turn or else by the rates."""
    from paceline.plan.traces import Rates
    from paceline.plan.workload import workload

    each = [{DRAFTER: one} for one in traces or [Rates(tuple(alphas))]]
    return workload(times_ms, prompt_tokens, output_tokens, each)


def setup_of(found: PaperPlan, pair: Pair, target: str, draft: str) -> Setup:
    """The plan as other engines are told it."""
    from paceline.plan.emit import Kind, Setup, steps_of

    kind = Kind.MODEL if pair.draft_params else Kind.LOOKUP
    return Setup(target=target, kind=kind, draft=draft, lengths=steps_of(found.lengths))


def serve(found: PaperPlan, arrivals: list[Any], seed: int) -> dict[str, Report]:
    """The same requests without drafts, with the best fixed length, and with the controller."""
    from paceline.plan.controller import Controller
    from paceline.plan.forecast import DrafterOnPaper
    from paceline.plan.simulate import FixedLength, Machine, Policy, simulate
    from paceline.plan.workload import report

    costs, last = found.costs, found.lengths[-1]
    machine = Machine(
        target=costs.target, drafts={DRAFTER: costs.draft}, max_requests=last.batch, noise=0.02
    )
    policies: dict[str, Policy] = {
        "plain": FixedLength(DRAFTER, 0),
        f"k = {found.lengths[0].k}": FixedLength(DRAFTER, found.lengths[0].k),
        "controller": Controller(costs.target, {DRAFTER: DrafterOnPaper(costs.draft)}),
    }
    return {
        name: report(simulate(arrivals, machine, policy, seed)) for name, policy in policies.items()
    }


def as_record(found: PaperPlan, served: dict[str, Report]) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "device": dataclasses.asdict(found.device),
        "fits": found.fits,
        "flat_rows": found.flat_rows,
        "switch_off_batch": found.switch_off_batch,
        "lengths": [
            dataclasses.asdict(one)
            | {"tokens_per_s": one.tokens_per_s, "break_even_alpha": break_even}
            for one, break_even in zip(found.lengths, found.break_even, strict=True)
        ],
        "served": {name: one.as_record() for name, one in served.items()},
    }


def show(found: PaperPlan, served: dict[str, Report]) -> None:
    """A table by batch size, what it rests on, and how requests would fare."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("batch", "k", "tokens/pass", "step, ms", "tokens/s", "x plain", "pays above α")
    for one, break_even in zip(found.lengths, found.break_even, strict=True):
        least = "never" if break_even is None else f"{break_even:.3f}"
        cells = (f"{one.tokens:.2f}", f"{one.step_ms:.2f}", f"{one.tokens_per_s:.0f}")
        table.add_row(str(one.batch), str(one.k), *cells, f"{one.speedup:.2f}", least)
    console.print(f"{found.device.title}, on paper ({found.device.source})")
    console.print(table)
    console.print(f"A pass costs what one row does up to {found.flat_rows:.0f} rows.")
    if found.switch_off_batch:
        console.print(f"From {found.switch_off_batch} requests on, no draft pays.")
    if not found.fits:
        console.print("The two models do not fit its memory.", style="yellow")
    if served:
        console.print(loads_table(served))


def loads_table(served: dict[str, Report]) -> Table:
    """A row a policy."""
    from rich.table import Table

    table = Table("policy", "tokens/s", "TTFT p50/p99, ms", "ms/token p50/p99", "tokens/pass")
    for name, one in served.items():
        waits = f"{one.ttft_ms.p50:.0f} / {one.ttft_ms.p99:.0f}"
        gaps = f"{one.ms_per_token.p50:.2f} / {one.ms_per_token.p99:.2f}"
        cells = (f"{one.tokens_per_s:.0f}", waits, gaps, f"{one.committed_per_pass:.2f}")
        table.add_row(name, *cells)
    return table
