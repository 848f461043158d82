"""`paceline train`: heads for a model, trained here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import defaults, options

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.models import LoadedModel
    from paceline.train.loop import Progress
    from paceline.train.run import Exporting
    from paceline.train.text import Corpus

train = typer.Typer(help="Train a drafter for a model.", no_args_is_help=True)

Target = Annotated[str, typer.Option("--target", "-m", help="The model that it will draft for.")]
Data = Annotated[
    Path,
    typer.Option("--data", help="A text, or .jsonl (.gz too) with text or messages a line."),
]
HeldOut = Annotated[
    Path | None,
    typer.Option(help="Text to measure on; by default every twentieth row of --data."),
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the head; a stopped run goes on.")]
Generate = Annotated[
    bool, typer.Option("--generate", help="Train on what the model itself writes after the rows.")
]
Temperature = Annotated[float, typer.Option(min=0, help="Of what it writes.")]
CapturedIn = Annotated[
    Path | None,
    typer.Option(
        "--captured", help="Folder of the model's states; heads of one text may share it."
    ),
]
DraftVocab = Annotated[
    int | None,
    typer.Option(min=1, help="Draft only from so many ids, the most frequent in --data."),
]
RowTokens = Annotated[int, typer.Option(min=32, help="Tokens of a row of text.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps of training.")]
RowsPerStep = Annotated[int, typer.Option(min=1, help="Rows of a step.")]
Rate = Annotated[float, typer.Option(help="Learning rate, at its peak.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
BFloat16 = Annotated[
    bool, typer.Option("--bfloat16", help="Multiply in bfloat16: faster where the CPU has it.")
]
LegMinutes = Annotated[
    float | None, typer.Option(min=0, help="Stop after so many minutes; run again to go on.")
]


@train.callback()
def group() -> None:
    """Train a drafter for a model."""


@train.command()
def medusa(
    data: Data,
    out: Out,
    target: Target = defaults.MODEL,
    heads: Annotated[int, typer.Option(min=1, help="Tokens ahead that are guessed.")] = 4,
    draft_vocab: DraftVocab = None,
    held_out: HeldOut = None,
    generate: Generate = False,
    temperature: Temperature = 1.0,
    captured: CapturedIn = None,
    row_tokens: RowTokens = 256,
    steps: Steps = 400,
    rows_per_step: RowsPerStep = 8,
    rate: Rate = 2e-3,
    seed: Seed = 0,
    bfloat16: BFloat16 = False,
    leg_minutes: LegMinutes = None,
    threads: options.Threads = None,
) -> None:
    """Train Medusa heads: several tokens ahead from the model's last state."""
    given = dict(locals())

    def make(model: LoadedModel, corpus: Corpus) -> Exporting:
        from paceline.train.medusa import MedusaObjective

        return MedusaObjective(model, heads, drafted(given, model, corpus))

    run(given, make)


@train.command()
def eagle(
    data: Data,
    out: Out,
    target: Target = defaults.MODEL,
    mlp_width: Annotated[
        int | None, typer.Option(min=1, help="Of the layer; the model's by default.")
    ] = None,
    draft_vocab: DraftVocab = None,
    held_out: HeldOut = None,
    generate: Generate = False,
    temperature: Temperature = 1.0,
    captured: CapturedIn = None,
    row_tokens: RowTokens = 256,
    steps: Steps = 400,
    rows_per_step: RowsPerStep = 8,
    rate: Rate = 2e-3,
    seed: Seed = 0,
    bfloat16: BFloat16 = False,
    leg_minutes: LegMinutes = None,
    threads: options.Threads = None,
) -> None:
    """Train an EAGLE layer: the next state from the last one and the token after it."""
    given = dict(locals())
    run(given, eagle_maker(given, fused=False, ahead=1))


@train.command()
def eagle3(
    data: Data,
    out: Out,
    target: Target = defaults.MODEL,
    mlp_width: Annotated[
        int | None, typer.Option(min=1, help="Of the layer; the model's by default.")
    ] = None,
    draft_vocab: DraftVocab = None,
    ahead: Annotated[int, typer.Option(min=1, help="Steps on its own outputs.")] = 4,
    held_out: HeldOut = None,
    generate: Generate = False,
    temperature: Temperature = 1.0,
    captured: CapturedIn = None,
    row_tokens: RowTokens = 256,
    steps: Steps = 400,
    rows_per_step: RowsPerStep = 8,
    rate: Rate = 2e-3,
    seed: Seed = 0,
    bfloat16: BFloat16 = False,
    leg_minutes: LegMinutes = None,
    threads: options.Threads = None,
) -> None:
    """Train an EAGLE-3 layer: fused states, and steps on its own outputs."""
    given = dict(locals())
    run(given, eagle_maker(given, fused=True, ahead=ahead))


@train.command()
def layerskip(
    data: Data,
    out: Out,
    target: Target = defaults.MODEL,
    tokens: Annotated[int, typer.Option(min=16, help="Tokens of text to try on.")] = 512,
    threads: options.Threads = None,
) -> None:
    """Find the layers of the model that draft best for it."""
    from paceline.models import load_model
    from paceline.train.layerskip import search, write

    use_threads(threads)
    model = load_model(target)
    with stages() as told:
        found = search(model, data, tokens, told("try layers"))
    write(out, model, found, data)
    print(
        f"{out}: layers {found.named}, {found.agreement:.0%} agreement, {found.share:.0%} of cost"
    )
    print(f"predicted: {found.tokens_per_pass:.2f} tokens per pass, speedup {found.speedup:.2f}")


Make = Callable[["LoadedModel", "Corpus"], "Exporting"]


def eagle_maker(given: dict[str, Any], *, fused: bool, ahead: int) -> Make:
    """How an EAGLE objective is made of a command's options."""

    def make(model: LoadedModel, corpus: Corpus) -> Exporting:
        from paceline.train.eagle import EagleObjective
        from paceline.train.eagle_shape import shape_of

        ids = drafted(given, model, corpus)
        shape = shape_of(model.spec, given["mlp_width"], ids, fused=fused)
        return EagleObjective(model, shape, ids, steps=ahead, seed=given["seed"])

    return make


def drafted(given: dict[str, Any], model: LoadedModel, corpus: Corpus) -> Tensor | None:
    """The ids that --draft-vocab leaves."""
    from paceline.train.text import frequent_ids

    return frequent_ids(corpus.train, given["draft_vocab"], model.spec.vocab_size)


def run(given: dict[str, Any], make: Make) -> None:
    """Train by a command's options; say how far it came and what it is worth."""
    from paceline.models import load_model
    from paceline.train.loop import Recipe
    from paceline.train.run import Source, Told
    from paceline.train.run import run as run_training

    use_threads(given["threads"])
    model = load_model(given["target"])
    recipe = Recipe(**{n: given[n] for n in ("steps", "rows_per_step", "rate", "seed", "bfloat16")})
    names = ("data", "held_out", "row_tokens", "generate", "temperature", "captured")
    source = Source(**{name: given[name] for name in names})
    leg_s = None if given["leg_minutes"] is None else given["leg_minutes"] * 60
    with stages() as stage:
        steps = stage("train")

        def step(progress: Progress, loss: float) -> None:
            steps(progress.step, recipe.steps, describe(progress, loss))

        told = Told(stage, tell_size, step)
        progress, held_out = run_training(
            model, lambda corpus: make(model, corpus), source, recipe, given["out"], told, leg_s
        )
    conclude(model, given["out"], progress, recipe.steps, held_out.ids[0].tolist())


def conclude(
    model: LoadedModel, out: Path, progress: Progress, steps: int, prompt: list[int]
) -> None:
    """Print how far a run came, and what its head is worth on held-out text."""
    from paceline.drafters.checkpoint import option_string
    from paceline.train.curves import draw_curves
    from paceline.train.predict import serve_costs

    print(f"{out}: {progress.step} of {steps} steps, {progress.seconds:.0f} s")
    if progress.curves:
        draw_curves(progress.curves, out)
        held = progress.curves[-1]
        rates = ", ".join(f"{rate:.3f}" for rate in held["acceptance"])
        tokens = held["tokens_per_pass"]
        costs = serve_costs(model, option_string(out), prompt[: len(prompt) // 2])
        print(f"held-out acceptance by depth: {rates}")
        print(f"predicted: {tokens:.2f} tokens per pass, speedup {costs.speedup(tokens):.2f}")
    if progress.step < steps:
        print("Run the same command again to go on.")


def describe(progress: Progress, loss: float) -> str:
    """What stands beside the bar."""
    text = f"loss {loss:.3f}"
    if progress.curves:
        held = progress.curves[-1]
        text += f", held-out acceptance {held['acceptance'][0]:.3f}"
        text += f", {held['tokens_per_pass']:.2f} tokens per pass"
    return text


def tell_size(size_bytes: int) -> None:
    """Say what the states will take on disk."""
    from paceline.cli.progress import note

    note(f"hidden states: {size_bytes / 1e6:.1f} MB on disk")


@contextmanager
def stages() -> Iterator[Callable[[str], Any]]:
    """Yield stage(name), which gives report(done, total, detail), a bar of its own."""
    from rich.progress import TimeRemainingColumn

    from paceline.cli.progress import bars

    with bars(TimeRemainingColumn()) as progress:

        def stage(name: str) -> Callable[..., None]:
            task = progress.add_task(name, total=None, visible=False)

            def report(done: int, total: int, detail: str = "") -> None:
                shown = f"{name} {done}/{total} {detail}".rstrip()
                progress.update(
                    task, completed=done, total=total, description=shown, visible=done < total
                )

            return report

        yield stage


def use_threads(threads: int | None) -> None:
    """Bound the threads of torch and of the native kernels."""
    import torch

    from paceline.kernels.library import available
    from paceline.kernels.library import use_threads as use_native_threads

    if threads is not None:
        torch.set_num_threads(threads)
        if available():
            use_native_threads(threads)
