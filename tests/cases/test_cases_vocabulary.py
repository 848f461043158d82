"""Section M of what users reported of other engines: a draft model with another tokenizer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from paceline.sampling import to_probs
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams, Speculation
from tests.engines import request, run
from tests.habits import HABIT, alone, ask
from tests.oracle import Oracle
from tests.syllables import DRAFTER, Reader, syllable_engine

SAMPLES = 1_000
CRITICAL = 31.83
"""The 1 - 1e-4 quantile of chi-square with 8 degrees of freedom; a total variation of 0.115 is
found with a power above 0.95 (noncentrality at least 4 n TV^2 = 53)."""
THREE = Oracle(vocab_size=3, sharpness=1.0)
WARM = SamplingParams(temperature=1.2)


def g_statistic() -> float:
    """Of the second and third token, which are drafted, against the target's law."""
    rule = Speculation(rule="block", k=2)
    asked = [
        request(str(seed), "ab", rule, temperature=1.2, max_tokens=4, seed=seed)
        for seed in range(SAMPLES)
    ]
    outputs = run(syllable_engine(THREE), *asked)
    assert sum(output.counts.accepted for output in outputs) > SAMPLES / 2
    found = Counter(output.token_ids[1:3] for output in outputs)
    wanted = dict.fromkeys(np.ndindex(3, 3), 0.0)
    for path in np.ndindex(3, 3, 3):
        laws = [
            to_probs(THREE.logits([0, 1, *path[:n]])[None], [WARM])[0].tolist() for n in range(3)
        ]
        wanted[path[1:]] += laws[0][path[0]] * laws[1][path[1]] * laws[2][path[2]]
    return 2 * sum(n * np.log(n / (SAMPLES * wanted[pair])) for pair, n in found.items())


def test_hetero_vocab_law() -> None:
    """Other engines keep the draft's token where only its text agrees; here the law is kept."""
    assert g_statistic() < CRITICAL


def test_hetero_vocab_positions() -> None:
    """transformers PR 46936, 46124: the draft inherited the target's positions, and read a start of
    text at each re-tokenisation.
    """
    draft = Reader()
    words = "abc", "cab", "deadfaced"
    asked = [ask(w, w, DRAFTER, seed=6, ignore_eos=True, rule="block") for w in words]
    run(syllable_engine(HABIT, draft), *asked)
    assert len(draft.texts) > 20
    assert all(text[0] == 0 and 0 not in text[1:] for text in draft.texts)


COMBINATIONS: list[dict[str, Any]] = [
    {"temperature": 0.0, "structured": StructuredOutput(regex="(ab|cd|[ef]{2}){3,5}")},
    {"temperature": 1.0, "seed": 3, "frequency_penalty": 1.5, "logit_bias": {2: 3.0}},
    {"temperature": 1.0, "seed": 3, "allowed_token_ids": (0, 2, 5)},
    {"temperature": 1.0, "seed": 3, "allowed_token_ids": (5, 7)},
    {"temperature": 0.0, "bad_words": ("ca", "b"), "min_tokens": 12},
]


@pytest.mark.parametrize("options", ["", ":head_ids=6"])
@pytest.mark.parametrize("settings", COMBINATIONS)
def test_hetero_vocab_combo(settings: dict[str, Any], options: str) -> None:
    """vLLM 51561: with an argmax in the draft's own ids, mask and mapping were bypassed."""
    name, engine = DRAFTER + options, syllable_engine(HABIT, options=options)
    words = ("abc", "cab", "deadfaced")
    drafted = run(engine, *(ask(word, word, name, **settings) for word in words))
    plain = run(engine, *(ask(word, word, **settings) for word in words))
    assert [o.token_ids for o in drafted] == [o.token_ids for o in plain]
    if "structured" not in settings:
        assert [list(o.token_ids) for o in drafted] == [alone(w, **settings) for w in words]
