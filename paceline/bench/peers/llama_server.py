"""llama.cpp's server: plain, with a draft model, and with every kind of n-grams it has."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paceline.bench.peers.processes import post, serving
from paceline.bench.peers.race import Contender, Decode, Job, Lineup, Said
from paceline.errors import ConfigError

PROGRAM = "llama-server"
DRAFT_KIND = "draft-simple"
LENGTHS = (4, 8)
"""Tokens drafted by a model."""
TUNED = {
    "--spec-ngram-mod-n-match": "12",
    "--spec-ngram-mod-n-min": "4",
    "--spec-ngram-mod-n-max": "15",
}
"""The quickest setting of ngram-mod that was found on a CPU; its own wants longer matches."""


@dataclass(frozen=True)
class LlamaCpp:
    """Where it is."""

    bin: str = PROGRAM
    """The program, or the folder that it is in."""

    def lineup(self, job: Job) -> Lineup:
        """Its configurations; raises ConfigError where it is not here or reads no such model."""
        folder = Path(self.bin).expanduser() / PROGRAM
        program = shutil.which(str(folder)) or shutil.which(str(Path(self.bin).expanduser()))
        if program is None:
            raise ConfigError(f"There is no program {self.bin}; name one with --bin.")
        if job.model.is_dir():
            raise ConfigError(f"It reads GGUF files, and {job.model.name} is a folder.")
        told = said_by(program, "--help")
        ways = {"plain": (), **draft_ways(job, told), **ngram_ways(told)}
        base = [program, "-m", str(job.model), "-t", str(job.threads)]
        base += ["-np", str(job.batch), "-c", str(job.batch * job.context_tokens)]
        return Lineup(
            version=" ".join(said_by(program, "--version").split("\n")[:1]),
            contenders=[
                Contender("llama.cpp", way, partial(start, [*base, *flags], job))
                for way, flags in ways.items()
            ],
            skipped={} if job.draft else {"draft model": "no drafter of --draft has a model file"},
        )


def said_by(program: str, flag: str) -> str:
    """What it prints; raises ConfigError where it does not run."""
    try:
        ran = subprocess.run([program, flag], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"{program} {flag} fails: {error}.") from error
    return (ran.stdout or ran.stderr).strip()


def draft_ways(job: Job, told: str) -> dict[str, Sequence[str]]:
    """With a draft model, as this version wants to be told."""
    if job.draft is None:
        return {}
    length = "--spec-draft-n-max" if "--spec-draft-n-max" in told else "--draft-max"
    # Where there is a choice of kinds, a draft model alone is loaded and not used.
    kind = ("--spec-type", DRAFT_KIND) if DRAFT_KIND in told else ()
    return {f"draft model, n={n}": ("-md", str(job.draft), *kind, length, str(n)) for n in LENGTHS}


def ngram_ways(told: str) -> dict[str, Sequence[str]]:
    """Every kind of n-grams that its help lists; ngram-mod with shorter matches, too."""
    kinds = re.search(r"--spec-type\s+(\S+)", told)
    names = (
        [name for name in re.split("[,|]", kinds[1]) if name.startswith("ngram-")] if kinds else []
    )
    ways: dict[str, Sequence[str]] = {name: ("--spec-type", name) for name in names}
    if "ngram-mod" in names and all(flag in told for flag in TUNED):
        more = [part for pair in TUNED.items() for part in pair]
        ways["ngram-mod 12/4/15"] = ("--spec-type", "ngram-mod", *more)
    return ways


@contextmanager
def start(command: Sequence[str], job: Job) -> Iterator[Decode]:
    """Serve, and ask for as many texts at once as there are prompts."""
    with serving(command) as url, ThreadPoolExecutor(job.batch) as pool:

        def decode(prompts: Sequence[Sequence[int]], tokens: int) -> list[Said]:
            return list(pool.map(lambda ids: complete(url, job, ids, tokens), prompts))

        yield decode


def complete(url: str, job: Job, ids: Sequence[int], tokens: int) -> Said:
    """One continuation, timed by the server itself; raises ConfigError."""
    body = {
        "prompt": list(ids),
        "n_predict": tokens,
        "temperature": job.temperature,
        "seed": job.seed,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "ignore_eos": True,
        "cache_prompt": False,
        "return_tokens": True,
    }
    found: Any = post(f"{url}/completion", body)
    try:
        times = found["timings"]
        return Said(times["predicted_n"], times["predicted_ms"], tuple(found["tokens"]))
    except (KeyError, TypeError) as error:
        raise ConfigError("This llama-server tells no timings; take a newer one.") from error
