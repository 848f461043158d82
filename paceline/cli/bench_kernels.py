"""`paceline bench kernels | rows`: passes and products beside the machine's limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.bench.rows import PassCost
    from paceline.kernels.probe import Limits
    from paceline.models import LoadedModel

Rows = Annotated[str, typer.Option("--rows", help="Numbers of rows of a pass.", metavar="N[,N...]")]
Context = Annotated[int, typer.Option("--context", min=0, help="Tokens before the pass.")]

ROWS = "1,5,8,16"
CONTEXT = 256
TURNS = 15


def kernels(
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="Measure the largest weight of each format in this model."
        ),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="Measure a weight of this format; repeatable."),
    ] = None,
    rows: Rows = "1,2,4,5,8,16,32",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Time the native products by format and rows, beside bandwidth and arithmetic's peak."""
    from paceline.bench import kernels as products

    counts = parse_rows(rows)
    use_cores(threads)
    if model is None:
        weights = [products.blank_weight(name) for name in formats or ("Q4_K", "Q6_K", "Q8_0")]
    else:
        found = products.largest_of_each_format(load_native(model).weights.values())
        weights = [weight for weight in found if not formats or weight.format in formats]
    costs, limits = products.measure_products(weights, counts)
    if as_json:
        print(json.dumps({"products": [c.as_record() for c in costs]}))
        return
    print_limits(limits)
    ones = {cost.weight_format: cost.ms for cost in reversed(costs)}
    print_table(
        ("weight", "rows", "ms", "× first", "GB/s", "% of stream", "GOPS", "limit, ms"),
        [
            (
                f"{c.weight_format} {c.out_features} × {c.in_features}",
                str(c.rows),
                *(f"{c.ms:.3f}", f"{c.ms / ones[c.weight_format]:.2f}", f"{c.gb_per_s:.1f}"),
                *(f"{c.percent_of_stream:.0f}", f"{c.gops:.0f}", f"{c.limit_ms:.3f}"),
            )
            for c in costs
        ],
    )


def rows(
    model: options.Model,
    counts: Rows = ROWS,
    context: Context = CONTEXT,
    turns: Annotated[int, typer.Option(min=1, help="Passes of each number of rows.")] = TURNS,
    quantize: options.Quantize = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Time a model's whole pass by its rows, all with logits, beside the physical limit.

    Times are medians; ± is half of what lies between the quartiles.
    """
    wanted = parse_rows(counts)
    use_cores(threads)
    costs, limits = passes_of(load_native(model, quantize), wanted, context, turns)()
    if as_json:
        print(json.dumps({"rows": [cost.as_record() for cost in costs]}))
        return
    print_limits(limits)
    print_table(
        ("rows", "ms", "±", "× first", "GB/s", "% of stream", "limit, ms", "× limit"),
        [
            (
                str(cost.rows),
                *(f"{cost.ms:.2f}", f"{(cost.quartiles_ms[1] - cost.quartiles_ms[0]) / 2:.2f}"),
                *(f"{cost.ms / costs[0].ms:.2f}", f"{cost.gb_per_s:.1f}"),
                f"{100e9 * cost.gb_per_s / limits.bytes_per_s:.0f}",
                *(f"{cost.limit_ms:.2f}", f"{cost.ms / cost.limit_ms:.2f}"),
            )
            for cost in costs
        ],
    )


def parse_rows(text: str) -> tuple[int, ...]:
    """`1,5,8` -> (1, 5, 8); raises ConfigError where one is no number of rows."""
    from paceline.errors import ConfigError

    parts = text.split(",")
    if not all(part.strip().isdecimal() and 1 <= int(part) <= 512 for part in parts):
        raise ConfigError(f"--rows takes numbers in 1 .. 512 with commas, not '{text:.80}'.")
    return tuple(map(int, parts))


def use_cores(threads: int | None) -> int:
    """Compute with so many threads, by default one a core; raises ConfigError."""
    from paceline.kernels.library import use_threads
    from paceline.kernels.machine import cores

    use_threads(threads or cores())
    return threads or cores()


def load_native(model: str, quantize: str | None = None) -> LoadedModel:
    """Load with native kernels; raises PacelineError."""
    from paceline.cli.progress import byte_bar
    from paceline.models.load import load_model

    with byte_bar() as report:
        return load_model(model, kernels="native", quantize=quantize, progress=report)


def passes_of(
    model: LoadedModel, counts: Sequence[int], context: int, turns: int
) -> Callable[[], tuple[list[PassCost], Limits]]:
    """Times the model's passes when called, beside the machine's limits."""
    from paceline.bench.rows import measure_passes, weights_read

    kv, sizes = model.allocate_kv(context + max(counts)), weights_read(model.program)
    return lambda: measure_passes(model.forward, kv, sizes, counts, turns)


def print_limits(limits: Limits) -> None:
    """One line."""
    memory, peak = limits.bytes_per_s / 1e9, limits.ops_per_s / 1e9
    print(f"memory {memory:.1f} GB/s, int8 {peak:.0f} GOPS")


def print_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in columns:
        left = column == "weight"
        table.add_column(column, justify="left" if left else "right", no_wrap=left)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
