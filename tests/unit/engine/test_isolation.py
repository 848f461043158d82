"""A request that cannot go on ends alone, where plain decoding would have ended it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.engine import LLM
from paceline.sampling.grammar import Grammars
from paceline.sampling.spelling import library
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams, Speculation
from tests.conftest import ALL_DRAFTS, PROMPTS
from tests.engines import engine, request, run
from tests.grammars import SCHEMA

AFTER = 5
"""Tokens after which the custom processors below fail."""


def shapeless(output: list[int], row: Tensor) -> Tensor:
    return row if len(output) < AFTER else row[:-1]


def raising(output: list[int], row: Tensor) -> Tensor:
    return row if len(output) < AFTER else row[len(row)]


def senseless(output: list[int], row: Tensor) -> Tensor:
    return row if len(output) < AFTER else row * torch.nan


def emptying(output: list[int], row: Tensor) -> Tensor:
    return row if len(output) < AFTER else row.fill_(-torch.inf)


FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"logits_processors": (shapeless,)}, "must return logits of"),
    "raise": ({"logits_processors": (raising,)}, "raising.* failed: IndexError"),
    "nan": ({"logits_processors": (senseless,)}, "logits_processors make a logit of nan"),
    "empty": ({"logits_processors": (emptying,)}, "logits_processors leave no id"),
    "bias": ({"logit_bias": {0: 1e3}, "repetition_penalty": 1e-37}, "make a logit of inf"),
    "words": (
        {"allowed_token_ids": (0, 1), "bad_words": ("aaa", "baa", "ab", "bb")},
        "allowed_token_ids and bad_words leave no id at this position",
    ),
}


@pytest.mark.parametrize("drafter", ["none", "test_forest", "test_sampler"])
@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"temperature": 1.2, "seed": 9}])
@pytest.mark.parametrize("name", FAILING)
def test_it_ends_alone_and_says_why(name: str, settings: dict[str, Any], drafter: str) -> None:
    failing, complaint = FAILING[name]
    mates = [request(str(i), prompt, **settings) for i, prompt in enumerate(("abc", "fade"))]
    alone = run(engine(), *mates)
    (plain,) = run(engine(), request("bad", "cab", **settings, **failing))
    *others, bad = run(engine(drafter), *mates, request("bad", "cab", **settings, **failing))
    assert [o.token_ids for o in others] == [o.token_ids for o in alone]
    assert (bad.token_ids, bad.text, bad.error) == (plain.token_ids, plain.text, plain.error)
    assert bad.finish_reason == "error"
    assert re.search(complaint, bad.error or "")


@pytest.mark.parametrize("rule", ["token", "block", "multi", "traversal"])
def test_rules_that_draw(rule: str) -> None:
    speculation = Speculation(rule=rule)
    settings = {"temperature": 1.0, "logits_processors": (raising,), "speculation": speculation}
    requests = [request(str(seed), "cab", seed=seed, **settings) for seed in range(8)]
    mate = request("mate", temperature=0.0)
    *bad, good = run(engine("test_sampler"), *requests, mate)
    assert {(o.finish_reason, len(o.token_ids), len(o.text)) for o in bad} == {
        ("error", AFTER, AFTER)
    }
    assert good.finish_reason == "length"


@pytest.mark.parametrize("drafter", ["test_forest", "test_sampler"])
def test_what_fails_on_a_rejected_branch_alone_is_no_failure(drafter: str) -> None:
    (plain,) = run(engine(), request("r", temperature=0.0))
    strayed = False

    def narrow(output: list[int], row: Tensor) -> Tensor:
        nonlocal strayed
        if output != list(plain.token_ids[: len(output)]):
            strayed = True
            raise LookupError
        return row

    sent = request("r", temperature=0.0, logits_processors=(narrow,))
    (output,) = run(engine(drafter), sent)
    assert strayed
    assert output.error is None
    assert output.token_ids == plain.token_ids
    assert output.counts.accepted > 0


@pytest.mark.parametrize("drafter", ["none", *ALL_DRAFTS])
def test_a_grammar_at_a_limit_of_its_library(
    mini: LLM, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    limits = partial(library().LLParserLimits, max_lexer_states=60)
    monkeypatch.setattr(library(), "LLParserLimits", limits)
    grammars = Grammars(mini.tokenizer, mini.model.spec.vocab_size, mini.model.spec.eos_ids)
    monkeypatch.setattr(mini.engine, "_grammars", grammars)
    free = SamplingParams(temperature=0, max_tokens=12)
    bounded = replace(free, structured=StructuredOutput(json_schema=SCHEMA), max_tokens=60)
    alone = mini.generate(PROMPTS[:2], free, speculation=Speculation(drafter="none"))
    speculation = Speculation(drafter=drafter, k=4)
    settings = [free, free, bounded]
    *others, bad = mini.generate(PROMPTS[:3], settings, speculation=speculation)
    assert [o.token_ids for o in others] == [o.token_ids for o in alone]
    assert bad.finish_reason == "error"
    assert "The structured output cannot go on" in (bad.error or "")
    assert bad.token_ids
    mini.engine.pool.check_idle()


def test_a_stream_beside_it_goes_on(mini: LLM) -> None:
    """The one that failed says so in its last delta and in its output."""
    params = SamplingParams(temperature=0, max_tokens=12)
    wanted = mini.generate(PROMPTS[0], params)[0]
    good = mini.stream(PROMPTS[0], params)
    bad = mini.stream(PROMPTS[1], replace(params, logits_processors=(raising,)))
    *_, last = bad
    assert last.finish_reason == "error"
    assert bad.output is not None
    assert len(bad.output.token_ids) == AFTER
    assert "IndexError" in (bad.output.error or "")
    assert good.finish().token_ids == wanted.token_ids
