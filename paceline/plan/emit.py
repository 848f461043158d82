"""A plan in the words of other engines: commands and configuration, as text.

Option names are those of the engines' documentation of autumn 2026: vLLM features/
speculative_decoding, SGLang advanced_features/speculative_decoding, TensorRT-LLM features/
speculative-decoding, llama.cpp tools/server.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from paceline.errors import ConfigError, UnknownNameError
from paceline.plan.lengths import Length

LARGEST_BATCH = 512
"""Where the last range of a table ends."""


class Kind(StrEnum):
    """Where drafts come from."""

    MODEL = "a draft model"
    LOOKUP = "lookup in the prompt"
    SUFFIX = "lookup of suffixes"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What to run."""

    target: str
    kind: Kind
    draft: str = ""
    """The draft model, for kind MODEL."""
    lengths: tuple[tuple[int, int], ...]
    """(batch size from which it holds, tokens to draft), rising from 1."""

    def __post_init__(self) -> None:
        """Check what every engine needs."""
        if self.kind is Kind.MODEL and not self.draft:
            raise ConfigError("A draft model needs a name; give --draft NAME.")
        if not self.lengths or self.lengths[0][0] != 1:
            raise ConfigError("Draft lengths must be given from batch size 1 on.")

    @property
    def k(self) -> int:
        """The longest draft."""
        return max(k for _, k in self.lengths)

    @property
    def last_batch(self) -> int | None:
        """The largest batch that drafts; None where the largest planned one still does."""
        return self.lengths[-1][0] - 1 if self.lengths[-1][1] == 0 else None

    @property
    def ranges(self) -> list[list[int]]:
        """[from, to, k] for all batch sizes up to LARGEST_BATCH, or the last that was planned."""
        starts = [start for start, _ in self.lengths]
        ends = [start - 1 for start in starts[1:]] + [max(LARGEST_BATCH, starts[-1])]
        return [[start, end, k] for (start, k), end in zip(self.lengths, ends, strict=True)]


def steps_of(lengths: Sequence[Length]) -> tuple[tuple[int, int], ...]:
    """(batch, k) where k changes, the first from batch 1: what `Setup` takes.

    Lengths at batches 1, 2, 4 and 8 of 4, 4, 2 and 0: ((1, 4), (3, 2), (5, 0)). Between two batches
    that were planned the larger one's k holds: rather a row too few than one too many.
    """
    if not lengths:
        raise ConfigError("There is no batch size to plan for; give --batch.")
    steps = [(1, lengths[0].k)]
    for before, after in pairwise(lengths):
        if after.k != before.k:
            steps.append((before.batch + 1, after.k))
    return tuple(steps)


def emit(engine: str, setup: Setup) -> str:
    """The engine's configuration; raises UnknownNameError for one that is not known."""
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    return ENGINES[engine](setup)


VLLM = {
    Kind.MODEL: '{"method": "draft_model"}',
    Kind.LOOKUP: '{"method": "ngram", "prompt_lookup_max": 4}',
    Kind.SUFFIX: '{"method": "suffix"}',
}


def vllm(setup: Setup) -> str:
    """`vllm serve` with --speculative-config, k by batch size."""
    command = f"vllm serve {shlex.quote(setup.target)}"
    if setup.k == 0:
        return command
    config: dict[str, Any] = json.loads(VLLM[setup.kind])
    if setup.kind is Kind.MODEL:
        config["model"] = setup.draft
    config["num_speculative_tokens"] = setup.k
    if len(setup.lengths) > 1:
        config["num_speculative_tokens_per_batch_size"] = setup.ranges
    return f"{command} --speculative-config {shlex.quote(json.dumps(config))}"


def sglang(setup: Setup) -> str:
    """`sglang.launch_server`; it has no table by batch size, only a cap on what runs."""
    words = ["python3", "-m", "sglang.launch_server", "--model-path", setup.target]
    if setup.k == 0:
        return shlex.join(words)
    if setup.kind is Kind.MODEL:
        words += ["--speculative-algorithm", "STANDALONE"]
        words += ["--speculative-draft-model-path", setup.draft]
        words += ["--speculative-num-steps", str(setup.k), "--speculative-eagle-topk", "1"]
        words += ["--speculative-num-draft-tokens", str(setup.k + 1)]
    else:
        words += ["--speculative-algorithm", "NGRAM"]
        words += ["--speculative-num-draft-tokens", str(setup.k)]
    if setup.last_batch:
        words += ["--max-running-requests", str(setup.last_batch)]
    return shlex.join(words)


TENSORRT = {Kind.MODEL: "DraftTarget", Kind.LOOKUP: "NGram", Kind.SUFFIX: "SA"}


def tensorrt_llm(setup: Setup) -> str:
    """The YAML for `trtllm-serve --config`, speculation off above a batch size."""
    lines = [f"# trtllm-serve {shlex.quote(setup.target)} --config THIS_FILE"]
    if setup.k:
        lines += ["speculative_config:", f"  decoding_type: {TENSORRT[setup.kind]}"]
        lines += [f"  max_draft_len: {setup.k}"]
        if setup.kind is Kind.MODEL:
            lines += [f"  speculative_model: {json.dumps(setup.draft)}"]
        if setup.last_batch:
            lines += [f"  max_concurrency: {setup.last_batch}"]
    return "\n".join(lines)


def llama_cpp(setup: Setup) -> str:
    """`llama-server`; slots are capped where more would not draft."""
    words = ["llama-server", "-m", setup.target]
    if setup.k == 0:
        return shlex.join(words)
    if setup.kind is Kind.MODEL:
        words += ["--model-draft", setup.draft, "--spec-type", "draft-simple"]
        words += ["--spec-draft-n-max", str(setup.k)]
    else:
        words += ["--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "12"]
        words += ["--spec-ngram-mod-n-min", "1", "--spec-ngram-mod-n-max", str(setup.k)]
    if setup.last_batch:
        words += ["--parallel", str(setup.last_batch)]
    return shlex.join(words)


ENGINES: dict[str, Callable[[Setup], str]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tensorrt-llm": tensorrt_llm,
    "llama.cpp": llama_cpp,
}
