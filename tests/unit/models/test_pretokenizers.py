"""Where each named pre-tokenizer cuts."""

from __future__ import annotations

import pytest

from paceline.models.pretokenizers import pre_tokenizer


def cuts(name: str, text: str) -> list[str]:
    pieces = pre_tokenizer(name).build().pre_tokenize_str(text)
    return [text[start:end] for _, (start, end) in pieces]


@pytest.mark.parametrize(
    ("names", "text", "wanted"),
    [
        (
            ["gpt-2", "default", "phi-2", "olmo"],
            "I'll PAY'LL  12345 (x)\n\n  y",
            "I|'ll| PAY|'|LL| | 12345| (|x|)|\n\n |\x20y",
        ),
        (
            ["smollm", "starcoder", "refact"],
            "a 12x",
            "a| |1|2|x",
        ),
        (
            ["llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"],
            "I'll PAY'LL  12345 (x)\n\n  y",
            "I|'ll| PAY|'LL| | |123|45| (|x|)\n\n| | y",
        ),
        (
            ["qwen2", "deepseek-r1-qwen"],
            "I'll PAY'LL  123 (x)\n\n  y",
            "I|'ll| PAY|'LL| | |1|2|3| (|x|)\n\n| | y",
        ),
        (["tekken"], "HelloWorld's 12/\n", "Hello|World|'s| |1|2|/\n"),
        (["gpt-4o", "llama4"], "HelloWorld's 1234/\n", "Hello|World's| |123|4|/\n"),
    ],
)
def test_cuts(names: list[str], text: str, wanted: str) -> None:
    for name in names:
        assert cuts(name, text) == wanted.split("|")


def test_qwen2_composes_and_gpt2_does_not() -> None:
    decomposed = "e\u0301"
    normalizer = pre_tokenizer("qwen2").normalizer()
    assert normalizer is not None
    assert normalizer.normalize_str(decomposed) == "\u00e9"
    assert pre_tokenizer("gpt-2").normalizer() is None
