"""`paceline doctor`: what this machine can do, and what Paceline makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import options
from paceline.cli.doctor_pair import examine
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.bench.pair import PairFinding
    from paceline.kernels.library import Features
    from paceline.kernels.probe import Limits


MOST_PER_CORE = 4
PairModel = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Look at this model and its drafters, too."),
]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What was found; `native` and `limits` are None where the library was not built."""

    cpu: str
    cores: int
    torch: str
    torch_threads: int
    cuda_devices: int
    native: Features | None
    limits: Limits | None
    advice: tuple[str, ...]


def doctor(
    model: PairModel = None,
    draft: options.Draft = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Show the CPU, the kernels in use and what the machine sustains; measures for a second.

    With --model it looks at that model and its drafters too, before it loads them and for ten
    seconds at work; exit code 1 where they will not work together.
    """
    if draft and model is None:
        raise ConfigError("--draft is looked at beside its target; add --model.")
    check_threads(threads)
    found = diagnose(threads)
    pair = examine({"model": model, "draft": draft, "threads": threads}) if model else []
    if as_json:
        print(json.dumps(asdict(found) | {"pair": [asdict(one) for one in pair]}))
    else:
        print_diagnosis(found)
        print_pair(pair)
    if not all(one.works for one in pair):
        raise typer.Exit(1)


def check_threads(threads: int | None) -> None:
    """Raise ConfigError for so many threads that only their switching would be measured."""
    from paceline.kernels.machine import cores

    if threads is not None and threads > MOST_PER_CORE * cores():
        raise ConfigError(
            f"{threads} threads on {cores()} cores wait for one another; use --threads {cores()}."
        )


def print_pair(pair: Sequence[PairFinding]) -> None:
    """A line a finding, with what mends it below."""
    from rich.console import Console

    console = Console(highlight=False)
    for one in pair:
        style = "" if one.works else "bold red"
        console.print(f"{one.what}: {one.told}", style=style, markup=False)
        if one.mend:
            console.print(f"  {one.mend}", style="yellow", markup=False)


def diagnose(threads: int | None) -> Diagnosis:
    """Look, and measure with so many threads; raises ConfigError where they cannot be made."""
    import torch

    from paceline.kernels.library import available, features, use_threads
    from paceline.kernels.machine import cores, cpu_name
    from paceline.kernels.probe import measure_limits

    native = available()
    if threads is not None:
        torch.set_num_threads(threads)
        if native:
            use_threads(threads)
    return Diagnosis(
        cpu=cpu_name(),
        cores=cores(),
        torch=torch.__version__,
        torch_threads=torch.get_num_threads(),
        cuda_devices=torch.cuda.device_count(),
        native=features() if native else None,
        limits=measure_limits() if native else None,
        advice=tuple(advise(features() if native else None)),
    )


def advise(native: Features | None) -> list[str]:
    """What would make it quicker."""
    from paceline.kernels.machine import cores

    if native is None:
        return [
            "The native kernels were not built, so torch computes: install a C++ compiler and"
            " reinstall paceline."
        ]
    found = []
    if native.path != native.paths[-1]:
        found.append(f"PACELINE_KERNELS holds back {native.paths[-1]}, which this CPU runs.")
    if native.threads > cores():
        found.append(f"{native.threads} threads share {cores()} cores; use --threads {cores()}.")
    return found


def print_diagnosis(found: Diagnosis) -> None:
    """Two columns, then the advice."""
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_row("CPU", f"{found.cpu}, {found.cores} cores")
    table.add_row("torch", f"{found.torch}, {found.torch_threads} threads")
    table.add_row("CUDA devices", str(found.cuda_devices))
    if found.native is None or found.limits is None:
        table.add_row("kernels", "torch; the native library was not built")
    else:
        native, limits = found.native, found.limits
        others = f" (of {', '.join(native.paths)})" if len(native.paths) > 1 else ""
        table.add_row("kernels", f"native, {native.path}{others}, {native.threads} threads")
        table.add_row("memory", f"{limits.bytes_per_s / 1e9:.1f} GB/s read by all threads")
        table.add_row("int8", f"{limits.ops_per_s / 1e9:.0f} GOPS in the kernels' inner loop")
    console = Console()
    console.print(table)
    for line in found.advice:
        console.print(line, style="yellow")
