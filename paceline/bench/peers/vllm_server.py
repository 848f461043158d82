"""vLLM's server: plain, by n-grams, and with a draft model."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from paceline.bench.http_client import Client
from paceline.bench.peers.llama_server import said_by
from paceline.bench.peers.processes import serving
from paceline.bench.peers.race import Contender, Decode, Job, Lineup, Said
from paceline.errors import ConfigError

SPECULATION = "--speculative-config"
NGRAMS = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'


@dataclass(frozen=True)
class VLLM:
    """Where it is, and which models."""

    bin: str = "vllm"
    model: str | None = None
    """A folder or a hub id; it reads no GGUF file on a CPU."""
    draft: str | None = None

    def lineup(self, job: Job) -> Lineup:
        """Its configurations; raises ConfigError where it is not here, or has no model."""
        program = shutil.which(self.bin)
        if program is None:
            raise ConfigError(f"There is no program {self.bin}; name one by vllm:bin=PATH.")
        model = self.model or (str(job.model) if job.model.is_dir() else None)
        if model is None:
            raise ConfigError("It reads no GGUF file on a CPU; give vllm:model=FOLDER.")
        draft = self.draft or (str(job.draft) if job.draft and job.draft.is_dir() else None)
        ways: dict[str, Sequence[str]] = {"plain": (), "n-gram, n=4": (SPECULATION, NGRAMS)}
        if draft:
            asked = {"model": draft, "num_speculative_tokens": 4}
            ways["draft model, n=4"] = (SPECULATION, json.dumps(asked))
        base = [program, "serve", model, "--max-num-seqs", str(job.batch)]
        base += ["--no-enable-prefix-caching", "--max-model-len", str(job.context_tokens)]
        return Lineup(
            version="vllm " + said_by(program, "--version").split()[-1],
            contenders=[
                Contender("vllm", way, partial(start, [*base, *flags], model, job))
                for way, flags in ways.items()
            ],
            skipped={} if draft else {"draft model": "give vllm:draft=FOLDER"},
        )


@contextmanager
def start(command: Sequence[str], model: str, job: Job) -> Iterator[Decode]:
    """Serve, and ask for as many texts at once as there are prompts."""
    with serving(command) as url:

        async def ask(prompts: Sequence[Sequence[int]], tokens: int) -> list[Said]:
            texts = (complete(url, model, job, ids, tokens) for ids in prompts)
            return await asyncio.gather(*texts)

        yield lambda prompts, tokens: asyncio.run(ask(prompts, tokens))


async def complete(url: str, model: str, job: Job, ids: Sequence[int], tokens: int) -> Said:
    """One continuation, timed by its events; raises ConfigError."""
    body = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": tokens,
        "temperature": job.temperature,
        "seed": job.seed,
        "top_k": -1,
        "top_p": 1.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = await Client(url).complete(body)
    if answer.status != 200 or answer.error or not answer.gaps_s:
        raise ConfigError(f"vLLM answered {answer.status}: {answer.error or 'with no text'}")
    return Said(answer.tokens, 1e3 * sum(answer.gaps_s), answer.text)
