"""`--beams N`: the best continuations of one prompt, found by beam search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from paceline.cli import defaults
from paceline.errors import ConfigError
from paceline.types import BeamSearchParams, SamplingParams

if TYPE_CHECKING:
    from paceline.engine import LLM


def beam_params(given: Mapping[str, Any], params: SamplingParams) -> BeamSearchParams:
    """What the command's options ask of beam search; raises ConfigError for what it cannot do."""
    served = SamplingParams(
        temperature=defaults.TEMPERATURE,
        max_tokens=params.max_tokens,
        ignore_eos=params.ignore_eos,
    )
    if params != served:
        raise ConfigError(
            "--beams goes by the model's own law: of the sampling options it takes --max-tokens"
            " and --ignore-eos alone."
        )
    for name in ("prompts", "rule", "stats", "color"):
        if given[name]:
            raise ConfigError(f"--beams and --{name} exclude each other; give one.")
    return BeamSearchParams(
        beam_width=given["beams"], max_tokens=params.max_tokens, ignore_eos=params.ignore_eos
    )


def print_beams(llm: LLM, ids: list[int], params: BeamSearchParams, as_json: bool) -> None:
    """Write the beams, best first: one line of JSON, or each text under its score."""
    found = llm.beam_search(ids, params)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    for place, beam in enumerate(found.beams, start=1):
        print(f"[{place}] score {beam.score:.4f}, log-probability {beam.logprob:.4f}")
        print(beam.text)
