"""`paceline plan --model …`: measure on this machine and say what to run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import defaults
from paceline.cli.bench_report import setting_of, show
from paceline.cli.progress import count_bar
from paceline.cli.prompts import read_prompts
from paceline.cli.session import load, prompt_ids
from paceline.errors import ConfigError, UnknownNameError
from paceline.files import write_whole

if TYPE_CHECKING:
    from paceline.bench.advice import Advice
    from paceline.bench.calibrate import Calibration
    from paceline.bench.setting import BenchReport
    from paceline.engine import LLM
    from paceline.plan.emit import Setup


def plan_here(given: Mapping[str, Any], batches: list[int]) -> None:
    """Measure, print what to run; write plan.json and the figures where a folder is given."""
    from paceline.bench.advice import advise, as_record, reasons, table_of
    from paceline.bench.setting import BenchReport
    from paceline.plan.emit import emit

    if given["emit"]:
        check_words(given["emit"], drafts_of(given))
    if given["out"]:
        given["out"].mkdir(parents=True, exist_ok=True)
    llm = load_with_noise(given, batches)
    found = measure(llm, prompts_of(llm, given), batches, given["max_tokens"])
    advices = [advise(found, batch) for batch in batches]
    setting = setting_of(llm)
    record = as_record(found, advices)
    report = BenchReport("Plan", setting, (table_of(advices),), (), reasons(advices), record)
    if given["out"]:
        write(given["out"], llm, found, advices, report)
    if given["emit"]:
        print(emit(given["emit"], setup_of(found, advices, given["target"] or given["model"])))
    else:
        print(json.dumps(report.as_record())) if given["as_json"] else show(report)


def check_words(engine: str, drafts: Sequence[str]) -> None:
    """Raise ConfigError for an engine that is not known, and for a drafter it has no words for."""
    from paceline.plan.emit import ENGINES

    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    words = defaults.kinds_elsewhere()
    for draft in drafts:
        if "+" in draft or draft.partition(":")[0] not in words:
            raise ConfigError(f"--emit has no words for '{draft}'; plan with {', '.join(words)}.")


def setup_of(found: Calibration, advices: Sequence[Advice], target: str) -> Setup:
    """The drafter that the smallest batch to draft is advised, for other engines."""
    from paceline.bench.advice import best_length_of
    from paceline.plan.emit import Kind, Setup, steps_of

    name = next((each.drafter for each in advices if each.drafter), "")
    if not name:
        return Setup(target=target, kind=Kind.LOOKUP, lengths=((1, 0),))
    kind, _, rest = name.partition(":")
    lengths = steps_of([best_length_of(found, name, each.batch) for each in advices])
    words = defaults.kinds_elsewhere()
    return Setup(target=target, kind=words[kind], draft=rest.partition(":")[0], lengths=lengths)


def drafts_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The drafters to judge; raises ConfigError where there is none."""
    drafts = defaults.drafts_of(given["model"], given["draft"])
    if not drafts:
        raise ConfigError("A plan compares drafters: give one or more by --draft, say ngram.")
    return drafts


def load_with_noise(given: Mapping[str, Any], batches: list[int]) -> LLM:
    """The model, the drafters to judge, and the one that measures passes; raises ConfigError."""
    from paceline.drafters import NOISE

    drafts = drafts_of(given)
    names = ("kernels", "threads", "max_model_len")
    settings = {name: given[name] for name in names if given[name] is not None}
    return load(given["model"], [*drafts, NOISE], max(4, *batches), **settings)


def prompts_of(llm: LLM, given: Mapping[str, Any]) -> list[list[int]]:
    """The user's own prompts, else Paceline's, one of each kind."""
    if given["prompts"]:
        asked = read_prompts(given["prompts"], given["limit"])
        return [prompt_ids(llm, prompt, given["raw"]) for prompt in asked]
    from paceline.bench.workloads import KINDS, by_kind, ids_of, own_tasks

    tasks = by_kind(own_tasks(), KINDS, 1)
    return [ids_of(llm, kind, prompt) for kind, prompts in tasks.items() for prompt in prompts]


def measure(llm: LLM, prompts: list[list[int]], batches: list[int], tokens: int) -> Calibration:
    """Calibrate, with a bar."""
    from paceline.bench.calibrate import calibrate, runs_of

    with count_bar(runs_of(llm, prompts, batches), "runs") as report:
        for done, found in enumerate(calibrate(llm, prompts, batches, tokens), start=1):
            if found is not None:
                return found
            report(done)
    raise AssertionError("calibrate ends with a calibration")


def write(
    folder: Path, llm: LLM, found: Calibration, advices: list[Advice], report: BenchReport
) -> None:
    """plan.json, the figures, and the page that holds them."""
    from paceline.bench.plots import (
        acceptance,
        as_page,
        pass_cost,
        speed_by_batch,
        speedup_by_length,
        write_figures,
    )
    from paceline.bench.rows import weights_read
    from paceline.kernels.library import available
    from paceline.kernels.probe import measure_limits
    from paceline.plan.roofline import Machine

    write_whole(folder / "plan.json", json.dumps(report.as_record(), indent=1).encode())
    machine = None
    if available():
        limits = measure_limits()
        machine = Machine(bytes_per_s=limits.bytes_per_s, flops_per_s=limits.ops_per_s)
    figures = {
        "speedup": ("Speed against draft length, one request", speedup_by_length(found)),
        "passes": (
            "What a pass takes",
            pass_cost(found, machine, weights_read(llm.model.program)),
        ),
        "acceptance": ("Acceptance by position, 90 % intervals", acceptance(found)),
        "batch": ("Speed against batch size", speed_by_batch(advices)),
    }
    images = write_figures(folder, figures)
    write_whole(folder / "plan.html", as_page(report, images).encode())
