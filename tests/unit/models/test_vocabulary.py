"""When a draft's ids mean what the target's mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_vocabularies import byte_level_backend, byte_level_metadata, write_folder

from paceline.errors import VocabularyError
from paceline.models.tokenizer import Tokenizer, check_same_vocabulary

GGUF = Path("model.gguf")
BYTES = Tokenizer.from_gguf(byte_level_metadata(), GGUF)


def test_one_vocabulary_with_other_padding_is_the_same(tmp_path: Path) -> None:
    """vLLM issues 5203 and 7252: 151936 rows against 152064."""
    folder = Tokenizer.from_hf_folder(write_folder(tmp_path, byte_level_backend()))
    rows = BYTES.vocab_size
    check_same_vocabulary(BYTES, folder, rows + 2, rows)
    check_same_vocabulary(folder, BYTES, rows, rows + 100)


def test_another_vocabulary_is_refused_by_its_first_id() -> None:
    """SGLang issue 24051: such a pair started, and its output was silently corrupted."""
    tokens = byte_level_metadata()["tokenizer.ggml.tokens"]
    tokens[269] = "<|im_finish|>"
    other = Tokenizer.from_gguf(byte_level_metadata(tokens=tokens), GGUF)
    message = r"id 269 is '<\|im_end\|>' to the target and '<\|im_finish\|>' to the draft"
    with pytest.raises(VocabularyError, match=message):
        check_same_vocabulary(BYTES, other, 300, 300)


def test_a_name_against_padding_is_a_difference() -> None:
    longer = Tokenizer(byte_level_backend(extra=("<more>",)), BYTES.special)
    with pytest.raises(VocabularyError, match="id 271 is unnamed to the target and '<more>'"):
        check_same_vocabulary(BYTES, longer, 300, 300)


@pytest.mark.parametrize(("sizes", "owner"), [((270, 300), "target"), ((300, 270), "draft")])
def test_fewer_rows_than_names_are_refused(sizes: tuple[int, int], owner: str) -> None:
    with pytest.raises(VocabularyError, match=f"The {owner} has 270 rows, too few for id 270"):
        check_same_vocabulary(BYTES, BYTES, *sizes)
