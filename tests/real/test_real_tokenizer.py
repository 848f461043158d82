"""The real files' tokenizers: transformers' ids, and text that survives."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from paceline.errors import VocabularyError
from paceline.models.gguf_file import read_gguf
from paceline.models.pull import pull
from paceline.models.template import render_chat
from paceline.models.tokenizer import Tokenizer, check_same_vocabulary

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

TARGET, DRAFT, GEMMA = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "gemma3-270m"
QWEN_IDS = {
    "Hello world!": [9707, 1879, 0],
    "def f(x):\n    return x": [750, 282, 2075, 982, 262, 470, 856],
    "1234": [16, 17, 18, 19],
    "<|im_start|>user\n": [151644, 872, 198],
}
MIXED = [
    "  two  three   blanks\n\n\n\ttab\t\ttabs \r\n end  ",
    "I'll, you'RE; caf\u00e9 na\u00efve \u0645\u0631\u062d\u0628\u0627 \u65e5\u672c\u8a9e",
    "\U0001f600\U0001f468\u200d\U0001f469 \U0001f1e9\U0001f1ea \u00bd \u0663\u0664 x\u00b2",
    "<|im_start|>user\nhi<|im_end|>\n<tool_call>{}</tool_call><|fim_prefix|>a<|fim_suffix|>b",
    "<bos><start_of_turn>user\n<b>hi</b><end_of_turn>",
    "x" * 1000 + " " * 30 + "\u3000\u00a0\u2028",
]


def texts() -> Iterator[str]:
    """Mixed scripts, and this package's own source, less SentencePiece's sign for a blank."""
    yield from MIXED
    for path in sorted((Path(__file__).parents[2] / "paceline" / "models").glob("*.py")):
        text = path.read_text(encoding="utf-8").replace("▁", "_")
        yield unicodedata.normalize("NFC", text)


def load(name: str) -> tuple[Tokenizer, Path]:
    path = pull(name)
    return Tokenizer.from_gguf(read_gguf(path).metadata, path), path


def theirs(path: Path) -> Any:
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


@pytest.fixture(scope="module")
def draft() -> tuple[Tokenizer, Path]:
    return load(DRAFT)


def test_qwen_ids_are_the_published_ones(draft: tuple[Tokenizer, Path]) -> None:
    tokenizer, _ = draft
    assert {t: tokenizer.encode(t, parse_special=True) for t in QWEN_IDS} == QWEN_IDS
    assert tokenizer.eos_ids == {151643, 151645}
    assert tokenizer.vocab_size == 151665


@pytest.mark.filterwarnings("ignore")
def test_qwen_agrees_with_transformers(draft: tuple[Tokenizer, Path]) -> None:
    tokenizer, path = draft
    reference = theirs(path)
    for text in texts():
        ids = tokenizer.encode(text, parse_special=True)
        assert ids == reference(text, add_special_tokens=False).input_ids
        for skip in (True, False):
            wanted = reference.decode(
                ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False
            )
            assert tokenizer.decode(ids, skip) == wanted
    chat = [{"role": "user", "content": "<b>2 & 2</b>\u00e9"}]
    ours = render_chat(tokenizer, chat)
    assert ours == reference.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)


@pytest.mark.filterwarnings("ignore")
def test_gemma_agrees_with_transformers_outside_runs() -> None:
    """Runs of blanks and breaks are Gemma's own tokens, longest first; transformers' reading of
    GGUF merges them by score instead, so those texts are compared by what they decode to.
    """
    tokenizer, path = load(GEMMA)
    reference = theirs(path)
    for text in texts():
        words = " ".join(text.split())
        ids = reference(words, add_special_tokens=False).input_ids
        assert tokenizer.encode(words, parse_special=True) == ids
        assert tokenizer.decode(tokenizer.encode(text), skip_special=False) == text


@pytest.mark.parametrize("name", [DRAFT, GEMMA])
def test_text_streams_and_survives(name: str) -> None:
    tokenizer, _ = load(name)
    for text in texts():
        ids = tokenizer.encode(text)
        stream = tokenizer.stream()
        pushes = [stream.push(i) for i in ids]
        assert "".join(pushes) + stream.flush() == text
        assert "\ufffd" not in "".join(pushes)


def test_the_qwens_share_a_vocabulary_and_gemma_does_not(draft: tuple[Tokenizer, Path]) -> None:
    target, _ = load(TARGET)
    check_same_vocabulary(target, draft[0], 151936, 151936)
    with pytest.raises(VocabularyError, match="id 0 is '!' to the target and '<pad>' to the draft"):
        check_same_vocabulary(target, load(GEMMA)[0], 151936, 262144)
