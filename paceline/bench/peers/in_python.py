"""Engines that are Python packages: each in a process, and an environment, of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from paceline.bench.peers.processes import last_words, running
from paceline.bench.peers.race import Contender, Decode, Job, Lineup, Said
from paceline.errors import ConfigError

SCRIPT = Path(__file__).with_name("decoding_script.py")
NO_DRAFT = "no drafter of --draft has a model file"


@dataclass(frozen=True)
class OpenVINO:
    """OpenVINO GenAI: where it is, and models in its own format."""

    python: str = sys.executable
    model: str | None = None
    """A folder; else it reads the GGUF file."""
    draft: str | None = None
    """A folder: it reads no GGUF file as a draft."""

    def lineup(self, job: Job) -> Lineup:
        """Its configurations; raises ConfigError where it is not here."""
        version = version_of(self.python, "openvino-genai")
        base = settings_of(job, self.model, None)
        ways: dict[str, dict[str, Any]] = {"plain": {}, "prompt lookup, n=5": {"lookup": 5}}
        skipped = {}
        if self.draft:
            ways["draft model, n=4"] = {"draft": self.draft, "length": 4}
        else:
            skipped["draft model"] = "it reads no GGUF file as a draft; give openvino:draft=FOLDER"
        return lineup("openvino", (self.python, version), (base, ways), skipped)


@dataclass(frozen=True)
class Transformers:
    """Hugging Face: where it is, and which models."""

    python: str = sys.executable
    model: str | None = None
    """A folder; else the same file, its weights as bfloat16."""
    draft: str | None = None

    def lineup(self, job: Job) -> Lineup:
        """Its configurations; raises ConfigError where it is not here."""
        version = version_of(self.python, "transformers")
        base = settings_of(job, self.model, None)
        ways: dict[str, dict[str, Any]] = {"plain": {}, "prompt lookup, n=10": {"lookup": 10}}
        skipped = {}
        if draft := self.draft or job.draft:
            ways["assisted"] = {"draft": str(draft)}
        else:
            skipped["assisted"] = NO_DRAFT
        return lineup("transformers", (self.python, version), (base, ways), skipped)


def settings_of(job: Job, model: str | None, draft: str | None) -> dict[str, Any]:
    """What a script must know of the job; raises ConfigError where it cannot do it."""
    if job.batch > 1:
        raise ConfigError("Its ways of drafting are for one request at a time.")
    return {
        "model": str(model or job.model),
        "draft": draft,
        "threads": job.threads,
        "temperature": job.temperature,
        "seed": job.seed,
    }


def lineup(
    engine: str,
    where: tuple[str, str],
    settings: tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]],
    skipped: Mapping[str, str],
) -> Lineup:
    """A contender for each way."""
    (python, version), (base, ways) = where, settings
    return Lineup(
        version=version,
        contenders=[
            Contender(engine, way, partial(start, python, engine, {**base, **more}))
            for way, more in ways.items()
        ],
        skipped=skipped,
    )


def version_of(python: str, package: str) -> str:
    """The package's, in that Python's environment; raises ConfigError where it is not there."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    try:
        ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(f"Cannot start {python}: {error.strerror}.") from error
    if ran.returncode:
        raise ConfigError(f"The package {package} is not installed for {python}.")
    return f"{package} {ran.stdout.strip()}"


@contextmanager
def start(python: str, engine: str, settings: Mapping[str, Any]) -> Iterator[Decode]:
    """Load the model in a process of its own; raises ConfigError where that fails."""
    command = [python, str(SCRIPT), engine, json.dumps(settings)]
    with running(command) as (process, told):
        receive(process, told)  # the model is loaded
        yield partial(ask, process, told)


def ask(
    process: subprocess.Popen[str], told: IO[str], prompts: Sequence[Sequence[int]], tokens: int
) -> list[Said]:
    """The continuation of one prompt; raises ConfigError where the process fails."""
    (ids,) = prompts
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps({"ids": list(ids), "tokens": tokens}) + "\n")
        process.stdin.flush()
    except OSError as error:
        raise ConfigError(f"The process ended: {last_words(told)}") from error
    found = receive(process, told)
    return [Said(len(found["ids"]), found["decode_ms"], tuple(found["ids"]))]


def receive(process: subprocess.Popen[str], told: IO[str]) -> Any:
    """The next line it prints; raises ConfigError where it ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise ConfigError(f"The process ended: {last_words(told)}")
    return json.loads(line)
