"""Structured output through the engine: any drafter and batch gives what plain decoding does."""

from __future__ import annotations

import json

import jsonschema
import pytest

from paceline.errors import RequestError
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams, Speculation
from tests.conftest import ALL_DRAFTS, PROMPTS

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "kind": {"enum": ["function", "class"]},
        "sizes": {"type": "array", "items": {"type": "integer", "maximum": 99}, "maxItems": 3},
    },
    "required": ["name", "kind", "sizes"],
    "additionalProperties": False,
}
SPEC = StructuredOutput(json_schema=SCHEMA, disable_any_whitespace=True)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", ALL_DRAFTS)
def test_json_schema(mini, drafter, temperature):
    """Cases json_schema, json_object, grammar_invalid_draft, grammar_finish_mid_block."""
    settings = [
        SamplingParams(
            temperature=temperature,
            seed=index,
            max_tokens=60,
            repetition_penalty=1.1,
            structured=SPEC if index % 2 else None,
        )
        for index in range(4)
    ]
    plain = mini.generate(PROMPTS[:4], settings, speculation=Speculation(drafter="none"))
    drafted = mini.generate(PROMPTS[:4], settings, speculation=Speculation(drafter=drafter, k=5))
    assert [o.token_ids for o in drafted] == [o.token_ids for o in plain]
    for output in drafted[1::2]:
        jsonschema.validate(json.loads(output.text), SCHEMA)
        assert output.finish_reason == "stop"
        assert output.counts.accepted > 0, "forced tokens are a free draft"
    mini.engine.pool.check_idle()


@pytest.mark.parametrize("rule", ["token", "block", "multi"])
def test_rules_that_draw_drafts(mini, rule):
    params = SamplingParams(structured=StructuredOutput(regex="[a-f]{3}(-[0-9]{2}){2}"))
    speculation = Speculation(drafter=ALL_DRAFTS[0], k=4, rule=rule)
    for output in mini.generate(PROMPTS[:3], params, speculation=speculation):
        assert len(output.text) == 9
        assert output.text[3] == "-"


def test_forced_tokens_are_proposed(mini):
    text = "return the_one_and_only_answer(x, y)"
    params = SamplingParams(structured=StructuredOutput(choice=(text,)), max_tokens=60)
    (output,) = mini.generate(PROMPTS[0], params, speculation=Speculation(drafter="ngram", k=4))
    assert output.text == text
    assert output.counts.acceptance_rate == 1


def test_a_bad_grammar_is_refused_before_it_runs(mini):
    params = SamplingParams(structured=StructuredOutput(regex="("))
    with pytest.raises(RequestError, match="The regex cannot be used"):
        mini.generate(PROMPTS[0], params)
    assert not mini.engine.has_work


@pytest.mark.parametrize("setting", [{"ignore_eos": True}, {"min_tokens": 3}])
def test_what_would_not_let_it_end_is_refused(mini, setting):
    with pytest.raises(RequestError, match=f"{next(iter(setting))} cannot be combined"):
        mini.generate(PROMPTS[0], SamplingParams(structured=SPEC, **setting))
