"""Section G of what users reported of other engines: grammars under speculation.

On the habitual oracle no draft but its own is likely to be in the language.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from paceline.engine import LLM, Engine
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS
from tests.engines import run
from tests.habits import DRAFTERS, EOS, HABIT, ask, habits

REGEX = "[abc]{2,5}(de|f){1,3}c?"
GRAMMARS = {
    "regex": StructuredOutput(regex=REGEX),
    "choice": StructuredOutput(choice=("abba", "abbacca", "feed")),
    "lark": StructuredOutput(grammar="start: WORD+\nWORD: /[ab]{1,2}[def]{2}/"),
}
SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "integer", "maximum": 99}, "on": {"type": "boolean"}},
    "required": ["size", "on"],
    "additionalProperties": False,
}
KINDS: tuple[dict[str, Any], ...] = ({"temperature": 0.0}, {"temperature": 1.5, "seed": 4})
every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)


@every_drafter
@pytest.mark.parametrize("kind", GRAMMARS)
def test_grammar_invalid_draft(drafter: str, kind: str) -> None:
    """vLLM 27969: the engine died when one of thirty requests drafted what its grammar forbids."""
    engine = habits(drafter, max_num_requests=8)
    prompts = [f"{a}{b}abc" for a in "abc" for b in "ab"]
    for sampling in KINDS:
        settings = {**sampling, "structured": GRAMMARS[kind]}
        sent = [ask(word, word, drafter, **settings, k=4) for word in prompts]
        plain = [ask(word, word, **settings) for word in prompts]
        outputs, wanted = run(engine, *sent), run(engine, *plain)
        assert [o.token_ids for o in outputs] == [o.token_ids for o in wanted]
        for output in outputs:
            assert output.error is None
            if output.finish_reason == "stop":
                assert in_language(kind, output.text.removesuffix("h"))
        assert sum(o.finish_reason == "stop" for o in outputs) > 3


def in_language(kind: str, text: str) -> bool:
    if kind == "choice":
        return text in GRAMMARS[kind].choice
    return bool(re.fullmatch(REGEX if kind == "regex" else "([ab]{1,2}[def]{2})+", text))


@pytest.mark.parametrize("rule", ["token", "block", "multi", "traversal"])
def test_grammar_invalid_draft_that_was_drawn(rule: str) -> None:
    """A drawn token that the grammar forbids is a rejected trial, not a crash and not a cut."""
    engine = habits("model:other")
    for seed in range(6):
        settings = {"structured": GRAMMARS["regex"], "temperature": 1.5, "seed": seed}
        (output,) = run(engine, ask("r", "abc", "model:other", **settings, rule=rule))
        assert re.fullmatch(REGEX, output.text.removesuffix("h"))


@pytest.mark.parametrize("rule", ["greedy", "coupled"])
def test_json_object(mini: LLM, rule: str) -> None:
    """vLLM 9423: a draft model beside response_format crashed. Any object, as far as it goes."""
    params = SamplingParams(
        structured=StructuredOutput(json_object=True),
        temperature=float(rule == "coupled"),
        seed=3,
        max_tokens=20,
    )
    outputs = mini.generate(PROMPTS[:2], params, speculation=Speculation(drafter="model"))
    plain = mini.generate(PROMPTS[:2], params, speculation=Speculation(k=0))
    assert [o.token_ids for o in outputs] == [o.token_ids for o in plain]
    for output in outputs:
        assert output.text.lstrip().startswith("{")
        if output.finish_reason == "stop":
            assert isinstance(json.loads(output.text), dict)


def test_json_schema(mini: LLM) -> None:
    """vLLM 11484: a crash, and here each drafter's output is valid JSON of the schema."""
    spec = StructuredOutput(json_schema=SCHEMA, disable_any_whitespace=True)
    params = SamplingParams(structured=spec, temperature=1.0, seed=5, max_tokens=40)
    for drafter in ("model", "ngram", "suffix"):
        for output in mini.generate(PROMPTS[:2], params, speculation=Speculation(drafter=drafter)):
            jsonschema.validate(json.loads(output.text), SCHEMA)
            assert output.finish_reason == "stop"


@pytest.mark.parametrize("settings", KINDS, ids=["greedy", "coupled"])
def test_grammar_after_stop(habit: Engine, settings: dict[str, Any]) -> None:
    """openvino 4081: a mask was asked for behind the end of the text, which a draft went past."""
    spec = StructuredOutput(choice=("feed",))
    beyond = (*HABIT.tokenizer.encode("feed"), EOS, *HABIT.tokenizer.encode("feed"), EOS)
    for prediction in (beyond, beyond[4:], beyond[:3]):
        asked = {**settings, "structured": spec, "prediction": prediction, "k": 8}
        (output,) = run(habit, ask("r", drafter="prediction", **asked))
        assert output.text == "feedh"
        assert output.token_ids[-1] == EOS
        assert output.finish_reason == "stop"


@every_drafter
def test_grammar_finish_mid_block(habit: Engine, drafter: str) -> None:
    """sglang 21723: a grammar that ended inside a block took the whole batch with it."""
    free = {"temperature": 0.0, "ignore_eos": True}
    alone = run(habit, ask("free", "cab", **free))[0]
    specs = [StructuredOutput(choice=("feed" * n,)) for n in (1, 2, 4)]
    sent = [
        ask(str(i), "abc", drafter, temperature=0.0, structured=spec)
        for i, spec in enumerate(specs)
    ]
    *ended, other = run(habit, *sent, ask("free", "cab", drafter, **free))
    assert [o.text for o in ended] == ["feed" * n + "h" for n in (1, 2, 4)]
    assert all(o.counts.accepted > 0 for o in ended)
    assert other.token_ids == alone.token_ids
