"""`paceline certify --endpoint`: the certificate of somebody else's server."""

from __future__ import annotations

import json
import sys

import pytest

from paceline.certify import gtest, law
from paceline.certify.forced import joint_law
from tests.stub_endpoint import Sampler, serving


@pytest.fixture(autouse=True)
def brief(monkeypatch, tmp_path):
    monkeypatch.setattr(gtest, "DRAWS", 4_999)
    monkeypatch.setattr(law, "QUICK", law.Effort(samples=200, seconds=0))
    monkeypatch.setattr(law, "LEAST", 200)
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("PACELINE_ENDPOINT_KEY", "sesame")


@pytest.fixture(scope="module")
def exact(mini):
    return joint_law(mini.model, mini.encode(law.PROMPT))


def test_a_server_and_a_model(loaded, mini, exact, tmp_path, monkeypatch):
    out = tmp_path / "c.md"
    with serving(Sampler(exact, mini.tokenizer, key="sesame")) as url:
        words = ("certify", "--endpoint", url, "--quick", "--out", str(out))
        monkeypatch.setattr(sys, "argv", ["paceline", *words])
        ran = loaded(*words)
        record = json.loads(loaded(*words, "--json").out)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"The law of {url}: passed")
    assert "200 texts of stub there" in ran.out
    page = out.read_text()
    assert f"| server | stub at {url} |" in page
    assert f"certify --endpoint {url}" in page
    assert "| model | mini |" in page
    assert "sesame" not in page + ran.out + json.dumps(record)
    assert list(record) == ["passed", "provenance", "endpoint"]
    assert record["endpoint"]["samples"] == 200


def test_two_servers_need_no_model(cli, mini, exact, monkeypatch):
    monkeypatch.setattr("paceline.cli.certify.load", None)
    monkeypatch.setenv("PACELINE_ENDPOINT_B_KEY", "mellon")
    with (
        serving(Sampler(exact, mini.tokenizer, key="sesame")) as a,
        serving(Sampler(exact, mini.tokenizer, seed=2, key="mellon")) as b,
    ):
        ran = cli("certify", "--endpoint", a, "--endpoint-b", b, "--quick", "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert found["endpoint"]["endpoints"] == [a, b]
    assert found["endpoint"]["passed"]
    assert found["provenance"]["model"] is None


def test_texts_the_model_cannot_give_are_told_and_fail(loaded):
    with serving(lambda path, headers, body: (200, {"choices": [{"text": "zebra"}]})) as url:
        ran = loaded("certify", "--endpoint", url, "--served-model", "m", "--quick")
    assert ran.code == 1
    assert "200 texts have no probability under mini, as 'zebra'" in " ".join(ran.out.split())


def test_two_servers_that_differ_fail(cli, mini, exact):
    def other(path, headers, body):
        return 200, {"choices": [{"text": "zebra"}] * 8, "data": [{"id": "z"}]}

    with serving(Sampler(exact, mini.tokenizer)) as a, serving(other) as b:
        ran = cli("certify", "--endpoint", a, "--endpoint-b", b, "--quick")
    assert ran.code == 1
    assert f"The same law at {a} and {b}: FAILED" in " ".join(ran.out.split())
    assert ran.out.count("YES") == 3


def test_a_wrong_key_is_one_line(cli, mini, exact):
    with serving(Sampler(exact, mini.tokenizer, key="other")) as url:
        ran = cli("certify", "--endpoint", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"paceline: {url}/v1/models wants another key (401); put it in PACELINE_ENDPOINT_KEY"
        " (PACELINE_ENDPOINT_B_KEY for --endpoint-b).\n"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--endpoint-b", "http://h"), "--endpoint-b is nothing without --endpoint URL."),
        (("--served-model", "m"), "--served-model is nothing without --endpoint URL."),
        (("--served-model-b", "m"), "--served-model-b is nothing without --endpoint-b URL."),
    ],
)
def test_options_without_their_server_are_refused(cli, options, told):
    ran = cli("certify", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"paceline: {told}\n")
