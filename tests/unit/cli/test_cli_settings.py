"""Sampling options of `generate`: each reaches the request, and the wrong ones are told."""

from __future__ import annotations

import json

import pytest

from paceline.cli.sampling_options import parse_bias, sampling
from paceline.errors import ConfigError
from paceline.types import SamplingParams


def test_every_option_is_a_setting():
    given = {"temperature": 0.5, "typical_p": 0.9, "model": "mini", "json_schema": None}
    found = sampling(
        given | {"logit_bias": ["198=-5", "7=2.5"], "bad_word": ["self"], "stop": ["\n"]}
    )
    assert found == SamplingParams(
        temperature=0.5,
        logit_bias={198: -5.0, 7: 2.5},
        bad_words=("self",),
        stop=("\n",),
        typical_p=0.9,
    )


@pytest.mark.parametrize("text", ["198", "a=1", "1=x", "=", ""])
def test_a_bias_that_is_none(text):
    with pytest.raises(ConfigError, match="--logit-bias wants ID=VALUE"):
        parse_bias(text)


def test_they_reach_the_request(cli):
    """All of them, in one command whose text they force."""
    result = cli(
        *("generate", "x", "--json", "--logit-bias", "321=1000", "--max-tokens", "6"),
        *("--min-tokens", "2", "--presence-penalty", "1.0", "--frequency-penalty", "0.5"),
        *("--repetition-penalty", "1.1", "--typical-p", "0.9", "--bad-word", "self"),
        *("--ignore-eos", "--logprobs", "2"),
    )
    found = json.loads(result.out)
    assert found["token_ids"] == [321] * 6
    assert [len(entry["top"]) for entry in found["logprobs"]] == [2] * 6
    assert [entry["token"] for entry in found["logprobs"]] == [321] * 6


def test_logprobs_are_for_json(cli):
    result = cli("generate", "x", "--logprobs", "2")
    assert result.code == 2
    assert "--logprobs needs --json or --prompts." in result.err


def test_forms_of_output(cli, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}')
    result = cli("generate", "x", "--json-schema", str(schema), "--max-tokens", "60")
    assert result.out.startswith('{"a":')
    assert cli("generate", "x", "--regex", "ab{3}c").out.strip() == "abbbc"
    both = cli("generate", "x", "--regex", "a", "--json-schema", str(schema))
    assert both.code == 2
    missing = cli("generate", "x", "--grammar", str(tmp_path / "none.lark"))
    assert (missing.code, "none.lark" in missing.err) == (1, True)


@pytest.mark.parametrize("option", ["--json-schema", "--grammar"])
def test_a_form_that_is_no_text(cli, tmp_path, option):
    path = tmp_path / "form"
    path.write_bytes(b"{\xff}")
    ran = cli("generate", "x", option, str(path))
    assert ran.code == 2
    assert ran.err.endswith("is not UTF-8 text (byte 1).\n")
