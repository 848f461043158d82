"""`paceline certify`: prove on this machine that speculation changes nothing."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import defaults, options, sampling_options
from paceline.cli.progress import byte_bar, count_bar, total_bar
from paceline.cli.prompts import read_prompts
from paceline.cli.session import engine_options, first_turns, load
from paceline.errors import ConfigError
from paceline.types import SamplingParams, Speculation

if TYPE_CHECKING:
    from paceline.certify.law import LawReport
    from paceline.certify.parity import ParityReport
    from paceline.certify.proofs import ExactReport
    from paceline.certify.provenance import Provenance
    from paceline.certify.report import Certificate
    from paceline.cli.prompts import Prompt
    from paceline.engine import LLM

CHECKS = "Checks; all three quickly where none is named"

Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Every rule by enumeration in exact fractions; needs no model.",
        rich_help_panel=CHECKS,
    ),
]
Law = Annotated[
    bool,
    typer.Option(
        "--law",
        help="The law of sampled text against the model's own, by tests of stated power.",
        rich_help_panel=CHECKS,
    ),
]
Parity = Annotated[
    bool,
    typer.Option(
        "--parity",
        help="The same ids with speculation on and off, greedy or seeded.",
        rich_help_panel=CHECKS,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Fewer cases, samples and prompts.", rich_help_panel=CHECKS),
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        min=1000,
        help="Outputs for --law to take, however long it takes.",
        rich_help_panel=CHECKS,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Rule for --law to sample by; by default that of a request without a seed.",
        rich_help_panel=CHECKS,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Write the certificate, in Markdown.", rich_help_panel=options.RESULT
    ),
]


def certify(
    exact: Exact = False,
    law: Law = False,
    parity: Parity = False,
    quick: Quick = False,
    samples: Samples = None,
    rule: Rule = None,
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: options.K = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    kv_dtype: options.KVDtype = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    temperature: sampling_options.Temperature = defaults.TEMPERATURE,
    top_p: sampling_options.TopP = 1.0,
    top_k: sampling_options.TopK = 0,
    min_p: sampling_options.MinP = 0.0,
    presence_penalty: sampling_options.Presence = 0.0,
    frequency_penalty: sampling_options.Frequency = 0.0,
    repetition_penalty: sampling_options.Repetition = 1.0,
    logit_bias: sampling_options.LogitBias = None,
    json_schema: sampling_options.JsonSchema = None,
    seed: sampling_options.Seed = None,
    max_tokens: sampling_options.MaxTokens = defaults.MAX_TOKENS,
    prompts: options.Prompts = None,
    batch: options.Batch = None,
    limit: options.Limit = None,
    raw: options.Raw = False,
    as_json: options.Json = False,
    out: Out = None,
) -> None:
    """Check that speculation keeps the model's own law; whatever fails exits with 1.

    Sampling options and prompts are those of --parity, which brings twenty prompts of its own.
    """
    options_given = dict(locals())
    if not (exact or law or parity):
        exact = law = parity = quick = True
    params = sampling_options.sampling(options_given)
    check_options(params, parity, out)
    check_drafts(defaults.drafts_of(model, draft), k, parity)
    limit = limit or (defaults.QUICK_PROMPTS if quick else None)
    given = read_prompts(prompts or own_prompts(), limit) if parity else []
    batch = batch or defaults.BATCH
    at_once = max(batch, defaults.LAW_BATCH) if law else batch
    settings = engine_options(options_given | {"rule": None})  # --rule is for --law alone
    llm = load(model, draft, at_once, **settings) if law or parity else None
    from paceline.certify.report import Certificate

    certificate = Certificate(
        provenance=look_up(llm),
        exact=prove(quick) if exact else None,
        law=sample_law(llm, rule, samples, quick) if llm and law else None,
        parity=compare(llm, given, params, raw, batch) if llm and parity else None,
    )
    tell(certificate, as_json, out)


def tell(certificate: Certificate, as_json: bool, out: Path | None) -> None:
    """Show it, and write it where that is wanted; whatever failed exits with 1."""
    print(json.dumps(certificate.as_record())) if as_json else show(certificate)
    if out:
        out.write_text(certificate.as_markdown(), encoding="utf-8")
    if not certificate.passed:
        raise typer.Exit(1)


def check_options(params: SamplingParams, parity: bool, out: Path | None) -> None:
    """Raise ConfigError for texts that no one could compare, or a certificate without a place."""
    if parity and params.temperature > 0 and params.seed is None:
        raise ConfigError("Text is reproducible when greedy or seeded; add --seed N.")
    if out and not out.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {out.parent} to write {out.name} to.")


def check_drafts(drafts: tuple[str, ...], k: int | None, parity: bool) -> None:
    """Raise ConfigError where both texts would be plain decoding's."""
    from paceline.drafters import OFF

    if parity and (k == 0 or not drafts or drafts[0].strip() == OFF):
        raise ConfigError(
            "Nothing drafts, so --parity has nothing to compare; name a drafter, as --draft ngram."
        )


def own_prompts() -> Path:
    """The prompts inside the package."""
    from importlib.resources import files

    return Path(str(files("paceline.certify") / "prompts.txt"))


def look_up(llm: LLM | None) -> Provenance:
    """What this run is about."""
    from paceline.certify.provenance import provenance

    command = shlex.join(["paceline", *sys.argv[1:]])
    if llm is None:
        return provenance(command)
    with byte_bar() as report:
        return provenance(command, llm.model, llm.config.speculation.drafts, report)


def prove(quick: bool) -> ExactReport:
    """Enumerate."""
    from paceline.certify.proofs import prove_all

    with total_bar("cases") as report:
        return prove_all(quick=quick, progress=report)


def sample_law(llm: LLM, rule: str | None, samples: int | None, quick: bool) -> LawReport:
    """Sample and test."""
    from paceline.certify.law import FULL, PROMPT, QUICK, Effort, check_law

    effort = QUICK if quick else FULL
    if samples:
        effort = Effort(samples=samples, seconds=math.inf)
    with total_bar("samples") as report:
        asked = Speculation(rule=rule)
        return check_law(llm, PROMPT, speculation=asked, effort=effort, progress=report)


def compare(
    llm: LLM, given: list[Prompt], params: SamplingParams, raw: bool, batch: int
) -> ParityReport:
    """Run the prompts twice."""
    from paceline.certify.parity import check_parity

    ids = first_turns(llm, given, raw, "to certify")
    with count_bar(len(ids), "prompts") as report:
        return check_parity(llm, ids, params, batch=batch, progress=report)


def show(certificate: Certificate) -> None:
    """A table a check, what it says above it and what went wrong below."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for section in certificate.sections():
        style = "bold green" if section.passed else "bold red"
        console.print(f"{section.title}: {section.verdict}", style=style)
        console.print(section.statement, markup=False)
        table = Table(*section.header, show_header=any(section.header))
        for row in section.rows:
            table.add_row(*row)
        console.print(table)
        for problem in section.problems:
            console.print(problem, style="red", markup=False)
