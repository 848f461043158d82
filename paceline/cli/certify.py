"""`paceline certify`: prove on this machine that speculation changes nothing."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from paceline.cli import certify_options, defaults, endpoints, options, sampling_options
from paceline.cli.progress import byte_bar, count_bar, total_bar
from paceline.cli.prompts import read_prompts
from paceline.cli.session import engine_options, first_turns, load
from paceline.errors import ConfigError
from paceline.files import write_whole
from paceline.types import SamplingParams, Speculation

if TYPE_CHECKING:
    from paceline.certify.endpoint import Endpoint
    from paceline.certify.law import Effort, LawReport
    from paceline.certify.parity import ParityReport
    from paceline.certify.proofs import ExactReport
    from paceline.certify.provenance import Provenance
    from paceline.certify.report import Certificate
    from paceline.cli.prompts import Prompt
    from paceline.engine import LLM


def certify(
    ctx: typer.Context,
    exact: certify_options.Exact = False,
    law: certify_options.Law = False,
    parity: certify_options.Parity = False,
    endpoint: certify_options.Endpoint = None,
    endpoint_b: certify_options.EndpointB = None,
    served_model: certify_options.ServedModel = None,
    served_model_b: certify_options.ServedModelB = None,
    quick: certify_options.Quick = False,
    samples: certify_options.Samples = None,
    rule: certify_options.Rule = None,
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
    out: certify_options.Out = None,
) -> None:
    """Check that speculation keeps the model's own law; whatever fails exits with 1.

    Sampling options and prompts are of --parity, which brings twenty prompts of its own.
    """
    given = dict(locals())
    if not (exact or law or parity or endpoint):
        given |= dict.fromkeys(("exact", "law", "parity", "quick"), True)
    certify_options.refuse_unread(given, options.named_of(ctx))
    tell(run(given), as_json, out)


def run(given: dict[str, Any]) -> Certificate:
    """The checks that the options name; what is asked wrongly is told before anything is run."""
    law, parity, quick = (given[name] for name in ("law", "parity", "quick"))
    params = sampling_options.sampling(given)
    check_out(given["out"])
    check_rule(given["rule"])
    if parity:
        check_parity_options(params, defaults.drafts_of(given["model"], given["draft"]), given["k"])
    limit = given["limit"] or (defaults.QUICK_PROMPTS if quick else None)
    prompts = read_prompts(given["prompts"] or own_prompts(), limit) if parity else []
    servers = endpoints.connected(given)
    batch = given["batch"] or defaults.BATCH
    llm = load_for(given, batch, alone=len(servers) == 1)
    effort = effort_of(given["samples"], quick)
    from paceline.certify.report import Certificate

    return Certificate(
        provenance=look_up(llm, servers),
        exact=prove(quick) if given["exact"] else None,
        law=sample_law(llm, given["rule"], effort) if llm and law else None,
        parity=compare(llm, prompts, params, given["raw"], batch) if llm and parity else None,
        endpoint=endpoints.audited(servers, llm, effort) if servers else None,
    )


def load_for(given: dict[str, Any], batch: int, alone: bool) -> LLM | None:
    """The model, if a check needs it; a server that is audited `alone` needs no drafts of it."""
    from paceline.drafters import OFF

    law, drafted = given["law"], given["law"] or given["parity"]
    if not (drafted or alone):
        return None
    draft = given["draft"] if drafted else [OFF]
    at_once = max(batch, defaults.LAW_BATCH) if law else batch
    settings = engine_options(given | {"rule": None})  # --rule is for --law alone
    return load(given["model"], draft, at_once, **settings)


def effort_of(samples: int | None, quick: bool) -> Effort:
    """How many samples a test of a law takes."""
    from paceline.certify.law import FULL, QUICK, Effort

    if samples:
        return Effort(samples=samples, seconds=math.inf)
    return QUICK if quick else FULL


def tell(certificate: Certificate, as_json: bool, out: Path | None) -> None:
    """Show it, and write it where that is wanted; whatever failed exits with 1."""
    print(json.dumps(certificate.as_record())) if as_json else show(certificate)
    if out:
        write_whole(out, certificate.as_markdown().encode())
    if not certificate.passed:
        raise typer.Exit(1)


def check_out(out: Path | None) -> None:
    """Raise ConfigError where the certificate has no place."""
    if out and not out.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {out.parent} to write {out.name} to.")


def check_rule(name: str | None) -> None:
    """Raise UnknownNameError where there is no such rule."""
    from paceline.verify import rules

    if name is not None:
        rules[name]


def check_parity_options(params: SamplingParams, drafts: tuple[str, ...], k: int | None) -> None:
    """Raise ConfigError where no text is promised, or both would be plain decoding's."""
    from paceline.drafters import OFF

    if params.temperature > 0 and params.seed is None:
        raise ConfigError("Text is reproducible when greedy or seeded; add --seed N.")
    if k == 0 or not drafts or drafts[0].strip() == OFF:
        raise ConfigError(
            "Nothing drafts, so --parity has nothing to compare; name a drafter, as --draft ngram."
        )


def own_prompts() -> Path:
    """The prompts inside the package."""
    from importlib.resources import files

    return Path(str(files("paceline.certify") / "prompts.txt"))


def look_up(llm: LLM | None, servers: Sequence[Endpoint]) -> Provenance:
    """What this run is about."""
    from paceline.certify.provenance import provenance

    command = shlex.join(["paceline", *sys.argv[1:]])
    named = tuple(f"{server.model} at {server.url}" for server in servers)
    if llm is None:
        return provenance(command, endpoints=named)
    with byte_bar() as report:
        drafts = llm.config.speculation.drafts
        return provenance(command, llm.model, drafts, endpoints=named, progress=report)


def prove(quick: bool) -> ExactReport:
    """Enumerate."""
    from paceline.certify.proofs import prove_all

    with total_bar("cases") as report:
        return prove_all(quick=quick, progress=report)


def sample_law(llm: LLM, rule: str | None, effort: Effort) -> LawReport:
    """Sample and test."""
    from paceline.certify.law import PROMPT, check_law

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
