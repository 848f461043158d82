"""`paceline certify`: an option that none of the chosen checks reads is refused."""

from __future__ import annotations

import inspect

import pytest

from paceline.cli import certify_options
from paceline.cli.certify import certify
from paceline.errors import ConfigError

CHECKS = {
    "--exact": ("--exact",),
    "--law": ("--law",),
    "--parity": ("--parity",),
    certify_options.ALONE: ("--endpoint", "http://h"),
    certify_options.PAIR: ("--endpoint", "http://h", "--endpoint-b", "http://i"),
}
VALUES = {
    "quick": (),
    "raw": (),
    "samples": ("1000",),
    "k": ("2",),
    "threads": ("1",),
    "max_model_len": ("64",),
    "batch": ("2",),
    "limit": ("2",),
    "seed": ("7",),
    "max_tokens": ("4",),
    "top_k": ("4",),
    "logit_bias": ("1=2",),
    **dict.fromkeys(("model", "draft", "dtype", "device", "kernels", "quantize"), ("x",)),
    **dict.fromkeys(("kv_dtype", "rule", "prompts", "json_schema"), ("x",)),
    **dict.fromkeys(("temperature", "top_p", "min_p", "presence_penalty"), ("0.5",)),
    **dict.fromkeys(("frequency_penalty", "repetition_penalty"), ("0.5",)),
}
ALWAYS = {"exact", "law", "parity", "as_json", "out", "ctx"} | {
    *("endpoint", "endpoint_b", "served_model", "served_model_b")
}
"""What chooses the checks, or is the certificate's."""


@pytest.fixture
def nothing_runs(monkeypatch):
    def run(given):
        raise ConfigError("read")

    monkeypatch.setattr("paceline.cli.certify.run", run)


def test_every_option_has_its_check():
    assert set(inspect.signature(certify).parameters) == ALWAYS | set(VALUES)


@pytest.mark.parametrize("option", VALUES)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.usefixtures("nothing_runs")
def test_an_option_that_no_check_reads_is_refused(cli, check, option):
    flag = f"--{option.replace('_', '-')}"
    ran = cli("certify", *CHECKS[check], flag, *VALUES[option])
    if option in certify_options.READS[check]:
        assert ran.err == "paceline: read\n"
    else:
        assert ran.err.startswith(f"paceline: {flag} needs --")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--exact", "--rule", "token"), "--rule needs --law; no other check reads it."),
        (
            ("--exact", "--temperature", "0"),
            "--temperature needs --parity; no other check reads it.",
        ),
        (
            ("--parity", "--samples", "7777"),
            "--samples needs --law or --endpoint alone or --endpoint-b; no other check reads it.",
        ),
        (
            ("--endpoint", "http://h", "--endpoint-b", "http://i", "--model", "m"),
            "--model needs --law or --parity or --endpoint alone; no other check reads it.",
        ),
        (("--law", "--parity", "--rule", "token", "--limit", "1"), "read"),
        (("--rule", "token", "--limit", "1", "--samples", "1000"), "read"),
        (("--endpoint", "http://h", "--law", "--draft", "ngram", "--rule", "token"), "read"),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_the_refusal_names_the_checks(cli, options, told):
    ran = cli("certify", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"paceline: {told}\n")


def test_a_rule_that_does_not_exist_is_told_before_anything_runs(cli, monkeypatch):
    monkeypatch.setattr("paceline.cli.certify.load", None)
    ran = cli("certify", "--exact", "--law", "--rule", "nonsense")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("paceline: Unknown rule 'nonsense'")
