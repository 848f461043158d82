"""`paceline generate --beams N`: what the library finds, and no setting ignored."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from paceline.types import BeamSearchParams

PROMPT = ("generate", "--max-tokens", "6", "--beams", "2", "def add(a, b):")


def test_texts_under_their_scores(loaded, mini):
    params = BeamSearchParams(beam_width=2, max_tokens=6)
    wanted = mini.beam_search("def add(a, b):", params).beams
    ran = loaded(*PROMPT)
    lines = [
        f"[{i}] score {beam.score:.4f}, log-probability {beam.logprob:.4f}\n{beam.text}\n"
        for i, beam in enumerate(wanted, start=1)
    ]
    assert (ran.code, ran.out, ran.err) == (0, "".join(lines), "")
    found = json.loads(loaded(*PROMPT, "--json").out)
    assert found["beams"] == json.loads(json.dumps([asdict(beam) for beam in wanted]))
    assert found["passes"] <= found["steps"] == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--temperature", "0.5"), "of the sampling options it takes --max-tokens"),
        (("--min-p", "0.5"), "of the sampling options it takes --max-tokens"),
        (("--seed", "5"), "of the sampling options it takes --max-tokens"),
        (("--stats",), "--beams and --stats exclude each other"),
        (("--rule", "greedy"), "--beams and --rule exclude each other"),
    ],
)
def test_what_it_cannot_do_is_refused(loaded, options, message):
    ran = loaded(*PROMPT[:-1], *options, PROMPT[-1])
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
