"""Text <-> ids from both kinds of file, and the text stream's law."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_vocabularies import (
    CONTROLS,
    byte_level_backend,
    byte_level_metadata,
    sentence_piece_metadata,
    write_folder,
)
from tokenizers import decoders, processors

from paceline.errors import ModelFileError, RequestError, UnsupportedModelError
from paceline.models.pieces import Pieces
from paceline.models.tokenizer import Tokenizer

GGUF = Path("model.gguf")
BYTES = Tokenizer.from_gguf(byte_level_metadata(), GGUF)
SPM = Tokenizer.from_gguf(sentence_piece_metadata(), GGUF)
KINDS = pytest.mark.parametrize("tokenizer", [BYTES, SPM], ids=["bytes", "sentencepiece"])


def names(tokenizer: Tokenizer, ids: list[int]) -> list[str | None]:
    return [tokenizer.id_to_token(i) for i in ids]


def streamed(tokenizer: Tokenizer, ids: list[int], skip_special: bool) -> list[str]:
    stream = tokenizer.stream(skip_special)
    return [*(stream.push(i) for i in ids), stream.flush()]


def test_byte_level_merges_by_rank() -> None:
    ids = BYTES.encode("hello world  é12")
    assert names(BYTES, ids) == ["hello", "Ġwor", "l", "d", "Ġ", "Ġ", "Ã©", "12"]
    assert BYTES.decode(ids) == "hello world  é12"


def test_sentence_piece_merges_by_score_and_falls_back_to_bytes() -> None:
    ids = SPM.encode("hello world€\n\n")
    bytes_of_euro = ["<0xE2>", "<0x82>", "<0xAC>"]
    assert names(SPM, ids) == ["▁hello", "▁wor", "l", "d", *bytes_of_euro, "\n\n"]
    assert SPM.decode(ids) == "hello world€\n\n"


@pytest.mark.parametrize(
    ("better", "worse", "wanted"), [("ho", "oe", ["ho", "e"]), ("oe", "ho", ["h", "oe"])]
)
def test_the_better_score_merges_first(better: str, worse: str, wanted: list[str]) -> None:
    tokens = sentence_piece_metadata()["tokenizer.ggml.tokens"]
    tokens[tokens.index("▁wor")], tokens[tokens.index("▁w")] = better, worse
    metadata = sentence_piece_metadata(tokens=tokens, add_space_prefix=False)
    tokenizer = Tokenizer.from_gguf(metadata, GGUF)
    assert names(tokenizer, tokenizer.encode("hoe")) == wanted


def test_sentence_piece_adds_no_blank_where_the_file_forbids_it() -> None:
    tokenizer = Tokenizer.from_gguf(sentence_piece_metadata(add_space_prefix=False), GGUF)
    ids = tokenizer.encode("hello hello")
    assert names(tokenizer, ids) == ["hello", "▁hello"]
    assert tokenizer.decode(tokenizer.encode(" hello")) == " hello"


@KINDS
@settings(deadline=None)
@given(text=st.text(st.characters(exclude_characters="▁", exclude_categories=["Cs"])))
def test_text_survives_encode_and_decode(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text), skip_special=False) == text


@KINDS
@settings(max_examples=300, deadline=None)
@given(data=st.data(), skip_special=st.booleans())
def test_stream_concatenates_to_decode(
    tokenizer: Tokenizer, data: st.DataObject, skip_special: bool
) -> None:
    """Any ids: bytes that are no UTF-8, special tokens, blanks first, ids without a name."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3)))
    assert "".join(streamed(tokenizer, ids, skip_special)) == tokenizer.decode(ids, skip_special)


@settings(deadline=None)
@given(st.text(min_size=1))
def test_a_push_never_holds_half_a_character(text: str) -> None:
    """Valid text streams without U+FFFD, and each character comes with its last byte."""
    text = text.encode("utf-8", "ignore").decode().replace("\ufffd", "")
    ids = BYTES.encode(text)
    pushes = streamed(BYTES, ids, True)
    assert "\ufffd" not in "".join(pushes)
    assert pushes[-1] == ""


def test_stream_waits_for_a_character_and_flush_ends_a_broken_one() -> None:
    stream = BYTES.stream()
    euro = BYTES.encode("€")
    assert [stream.push(i) for i in euro] == ["", "", "€"]
    assert [stream.push(i) for i in euro[:2]] == ["", ""]
    assert stream.flush() == "\ufffd"


def test_sentence_piece_text_loses_one_leading_blank_only() -> None:
    hello = SPM.token_to_id("▁hello")
    assert hello is not None
    assert SPM.decode([1, hello, hello]) == "hello hello"
    assert streamed(SPM, [1, hello, hello], True) == ["", "hello", " hello", ""]


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(BYTES.names()))))
def test_decode_agrees_with_the_library(ids: list[int]) -> None:
    backend = byte_level_backend()
    assert BYTES.decode(ids, False) == backend.decode(ids, skip_special_tokens=False)
    assert BYTES.decode(ids, True) == backend.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("token", CONTROLS)
def test_special_tokens_are_text_until_they_are_asked_for(token: str) -> None:
    text = f"hello{token}"
    plain, parsed = BYTES.encode(text), BYTES.encode(text, parse_special=True)
    assert parsed == [*BYTES.encode("hello"), BYTES.token_to_id(token)]
    assert BYTES.token_to_id(token) not in plain
    assert BYTES.decode(plain) == text
    assert BYTES.decode(parsed) == "hello"
    assert BYTES.decode(parsed, skip_special=False) == text


def test_tokens_of_the_users_own_are_found_in_any_text_and_shown() -> None:
    ids = BYTES.encode("<tool>hello")
    assert names(BYTES, ids) == ["<tool>", "hello"]
    assert BYTES.decode(ids) == "<tool>hello"


def test_bos_comes_where_the_model_wants_it_and_once() -> None:
    assert SPM.encode("hello", add_special=True) == [1, *SPM.encode("hello")]
    assert SPM.encode("hello", add_special=False) == SPM.encode("hello")
    assert SPM.encode("<s>he", add_special=True, parse_special=True).count(1) == 1
    assert BYTES.encode("hello", add_special=True) == BYTES.encode("hello")
    llama3 = Tokenizer.from_gguf(byte_level_metadata("llama-bpe"), GGUF)
    assert llama3.encode("he", add_special=True) == [llama3.bos_id, *llama3.encode("he")]


def test_half_a_surrogate_pair_is_the_requests_fault() -> None:
    with pytest.raises(RequestError, match="surrogate"):
        BYTES.encode("a\ud800")


def test_ids_without_a_name_have_no_text() -> None:
    beyond = BYTES.vocab_size
    assert [BYTES.id_to_token(i) for i in (-1, beyond, 2**40)] == [None] * 3
    assert BYTES.decode([beyond, -1, 2**40]) == ""


def test_ends_of_text_are_those_the_file_and_the_family_know() -> None:
    by_name = {name: BYTES.token_to_id(name) for name in CONTROLS}
    assert BYTES.eos_id == by_name["<|im_end|>"]
    assert BYTES.eos_ids == {by_name["<|im_end|>"], by_name["<|endoftext|>"]}
    assert SPM.eos_ids == {2}


def test_a_folder_tells_what_a_gguf_tells(tmp_path: Path) -> None:
    config = {
        "bos_token": "<|endoftext|>",
        "eos_token": {"content": "<|im_end|>"},
        "chat_template": [{"name": "rag", "template": "no"}, {"name": "default", "template": "x"}],
    }
    folder = write_folder(
        tmp_path,
        byte_level_backend(),
        tokenizer_config=config,
        generation_config={"eos_token_id": [BYTES.token_to_id("<|endoftext|>")]},
    )
    tokenizer = Tokenizer.from_hf_folder(folder)
    assert tokenizer.names() == BYTES.names()
    assert (tokenizer.bos_id, tokenizer.eos_id) == (BYTES.bos_id, BYTES.eos_id)
    assert tokenizer.eos_ids == BYTES.eos_ids
    assert tokenizer.chat_template == "x"
    assert tokenizer.encode("hello", add_special=True) == BYTES.encode("hello")
    (folder / "chat_template.jinja").write_text("from a file", encoding="utf-8")
    assert Tokenizer.from_hf_folder(folder).chat_template == "from a file"


@pytest.mark.parametrize(("config", "wanted"), [({}, True), ({"add_bos_token": False}, False)])
def test_a_folders_post_processor_says_whether_bos_comes_first(
    tmp_path: Path, config: dict[str, bool], wanted: bool
) -> None:
    backend = byte_level_backend()
    bos = backend.token_to_id("<|endoftext|>")
    backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", bos)]
    )
    tokenizer = Tokenizer.from_hf_folder(write_folder(tmp_path, backend, tokenizer_config=config))
    assert tokenizer.bos_id == bos
    first = tokenizer.encode("hello", add_special=True)[0]
    assert first == (bos if wanted else backend.token_to_id("hello"))


def test_a_closing_post_processor_is_no_bos(tmp_path: Path) -> None:
    backend = byte_level_backend()
    end = ("<|im_end|>", backend.token_to_id("<|im_end|>"))
    backend.post_processor = processors.TemplateProcessing(
        single="$A <|im_end|>", special_tokens=[end]
    )
    tokenizer = Tokenizer.from_hf_folder(write_folder(tmp_path, backend))
    assert tokenizer.bos_id is None
    assert tokenizer.encode("hello", add_special=True) == BYTES.encode("hello")


def test_truncation_and_padding_of_a_file_are_ignored(tmp_path: Path) -> None:
    backend = byte_level_backend()
    backend.enable_truncation(2)
    backend.enable_padding(length=5)
    tokenizer = Tokenizer.from_hf_folder(write_folder(tmp_path, backend))
    assert tokenizer.encode("hello world") == BYTES.encode("hello world")


def test_a_folder_without_tokenizer_json_names_the_mend(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: is missing.*save_pretrained"):
        Tokenizer.from_hf_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("tokenizer.json", "{}", "tokenizer"),
        ("tokenizer.json", '{"model": {"type": "BPE", "vocab": {"a": -1}}}', "tokenizer"),
        ("tokenizer_config.json", "[]", "JSON"),
        ("tokenizer_config.json", "{", "JSON"),
        ("tokenizer_config.json", '{"eos_token": "<nowhere>"}', "eos_token"),
        ("tokenizer_config.json", '{"bos_token": 3}', "bos_token"),
        ("tokenizer_config.json", '{"chat_template": 3}', "chat_template"),
        ("generation_config.json", '{"eos_token_id": "2"}', "eos_token_id"),
        ("generation_config.json", '{"eos_token_id": [2, true]}', "eos_token_id"),
        ("config.json", '{"eos_token_id": -1}', "eos_token_id"),
        ("config.json", "[" * 200_000, "JSON"),
    ],
)
def test_a_damaged_folder_names_file_and_field(
    tmp_path: Path, name: str, text: str, field: str
) -> None:
    folder = write_folder(tmp_path, byte_level_backend())
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(ModelFileError) as caught:
        Tokenizer.from_hf_folder(folder)
    assert (caught.value.path, caught.value.field) == (folder / name, field)


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.CTC()])
def test_a_decoder_that_is_no_language_models_is_refused(
    tmp_path: Path, decoder: decoders.Decoder | None
) -> None:
    backend = byte_level_backend()
    data = json.loads(backend.to_str())
    data["decoder"] = json.loads(decoder.__getstate__()) if decoder is not None else None
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UnsupportedModelError, match="decoder") as caught:
        Tokenizer.from_hf_folder(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}")


def test_metaspace_decoder_reads_as_blanks() -> None:
    pieces = Pieces.of_decoder(decoders.Metaspace())
    assert pieces.reader().read([pieces.to_bytes(t) for t in ("▁a", "▁b")], final=True) == "a b"
    never = Pieces.of_decoder(decoders.Metaspace(prepend_scheme="never"))
    assert never.reader().read([never.to_bytes("▁a")], final=True) == " a"


def test_added_tokens_with_holes_keep_their_ids_as_plain_text(tmp_path: Path) -> None:
    """Blind to special tokens, the tokenizer still finds the user's own under the same ids."""
    folder = write_folder(tmp_path, byte_level_backend(extra=("<x>", "<y>")))
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] != "<x>"]
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    tokenizer = Tokenizer.from_hf_folder(folder)
    assert tokenizer.encode("<y>") == tokenizer.encode("<y>", parse_special=True)
