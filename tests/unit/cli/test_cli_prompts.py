"""Prompts: composed from argument, file and standard input; read from files of every form."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import sys

import pytest

from paceline.cli.prompts import Prompt, compose, read_prompts, user
from paceline.errors import ConfigError, RequestError


def pipe(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("stdin", "argument", "text"),
    [
        (b"import os\n", "def main():", "import os\ndef main():"),
        (b"import os", "def main():", "import os\ndef main():"),
        (b"", "def main():", "def main():"),
        (b"import os\n", None, "import os\n"),
        ("π = 3\n".encode(), None, "π = 3\n"),
    ],
)
def test_argument_follows_standard_input(monkeypatch, stdin, argument, text):
    pipe(monkeypatch, stdin)
    assert compose(argument, None) == Prompt.of_text(text)


def test_file_takes_the_place_of_standard_input(monkeypatch, tmp_path):
    pipe(monkeypatch, b"not read")
    file = tmp_path / "prompt.txt"
    file.write_text("class A:\n")
    assert compose("    x", file).text == "class A:\n    x"


@pytest.mark.parametrize("stdin", [b"", b" \n\t"])
def test_blank_prompt_is_refused(monkeypatch, stdin):
    pipe(monkeypatch, stdin)
    with pytest.raises(RequestError, match=r"prompt is empty.*--prompt-file"):
        compose(None, None)


def test_binary_standard_input_is_refused(monkeypatch):
    pipe(monkeypatch, b"abc\xff")
    with pytest.raises(ConfigError, match=r"Standard input is not UTF-8 text \(byte 3\)"):
        compose(None, None)


def test_text_lines(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_bytes(b"def a():\r\n\n  indented\n")
    assert [p.text for p in read_prompts(file)] == ["def a():", "  indented"]


def test_json_lines_of_every_form(tmp_path):
    file = tmp_path / "prompts.jsonl"
    system = {"role": "system", "content": "Be brief."}
    records = [
        {"prompt": "a\u2028b\nc", "task_id": 1},
        {"turns": ["first", "second"], "category": "writing"},
        {"messages": [system, user("hello") | {"name": "Ada"}]},
    ]
    file.write_text("\n\n".join(json.dumps(r, ensure_ascii=False) for r in records))
    assert read_prompts(file) == [
        Prompt(((user("a\u2028b\nc"),),)),
        Prompt(((user("first"),), (user("second"),))),
        Prompt(((system, user("hello")),)),
    ]


@pytest.mark.parametrize(
    ("name", "data"), [("a.txt", b"import os"), ("a.jsonl", b'{"prompt": "import os"}')]
)
def test_a_byte_order_mark_is_no_text(tmp_path, name, data):
    file = tmp_path / name
    file.write_bytes(codecs.BOM_UTF8 + data)
    assert [p.text for p in read_prompts(file)] == ["import os"]
    assert compose(None, file).text == data.decode()


def test_gzip_and_limit(tmp_path):
    file = tmp_path / "HumanEval.jsonl.gz"
    lines = [json.dumps({"task_id": i, "prompt": f"def f{i}():"}) for i in range(5)]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert [p.text for p in read_prompts(file, limit=2)] == ["def f0():", "def f1():"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"\n \n", r"a.txt holds no prompt"),
        ("a.txt", b"\xff", r"a.txt is not UTF-8 text \(byte 0\)"),
        ("a.jsonl", b'{"prompt": "x"}\n{', r"a.jsonl line 2 is not JSON"),
        ("a.jsonl", b'{"prompt": "x"}\n' + b"[" * 200_000, r"a.jsonl line 2 nests too many"),
        ("a.jsonl", b'{"text": "x"}', r"a.jsonl line 1 needs a 'prompt'"),
        ("a.jsonl", b'["x"]', r"a.jsonl line 1 needs a 'prompt'"),
        ("a.jsonl", b'{"prompt": 3}', r"a.jsonl line 1 needs a 'prompt'"),
        ("a.jsonl", b'{"prompt": "x"}\n{"prompt": " "}', r"a.jsonl line 2: the prompt is empty"),
        ("a.jsonl", b'{"turns": []}', r"a.jsonl line 1 needs a 'prompt'"),
        ("a.jsonl", b'{"turns": ["x", 3]}', r"a.jsonl line 1 needs a 'prompt'"),
        ("a.jsonl", b'{"messages": [{"role": "user"}]}', r"line 1: every message needs a role"),
        ("a.jsonl.gz", b"plain", r"a.jsonl.gz is no whole gzip file"),
        ("a.jsonl.gz", gzip.compress(b"{}", mtime=0)[:-6], r"a.jsonl.gz is no whole gzip file"),
    ],
)
def test_bad_files_are_named(tmp_path, name, data, message):
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        read_prompts(file)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"Cannot read .*none\.txt: No such file"):
        read_prompts(tmp_path / "none.txt")


@pytest.mark.parametrize(
    "messages",
    [(user("a"), user("b")), ({"role": "system", "content": "a"},)],
)
def test_messages_are_no_plain_text(messages):
    with pytest.raises(RequestError, match="need a chat template"):
        _ = Prompt((messages,)).text
