"""The tokenizer inside a GGUF file, built from its key-values, which are taken as hostile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers

from paceline.errors import UnsupportedModelError
from paceline.models.fields import Fields
from paceline.models.pretokenizers import pre_tokenizer
from paceline.models.special_tokens import SpecialTokens

T = TypeVar("T")

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = range(1, 6)
"""The values of `tokenizer.ggml.token_type` that make a difference; bytes (6) need no care."""
# Files name one end of text; models of these families also stop at the others they know.
_ENDS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>")
_LONGEST_PIECE = 256
"""Characters; bounds the work a hostile vocabulary makes."""
_PADDING = re.compile(r"\[PAD\d+\]")


class Kind(StrEnum):
    """`tokenizer.ggml.model`: a kind of tokenizer goes by the first model that had it."""

    GPT2 = auto()
    LLAMA = auto()


@dataclass(frozen=True)
class Vocabulary:
    """Every id's name and type; names are unique."""

    tokens: list[str]
    types: list[int]

    @classmethod
    def read(cls, fields: Fields) -> Vocabulary:
        """Read the arrays; raises ModelFileError."""
        key = "ggml.tokens"
        tokens = _array(fields, key, str)
        if not tokens:
            raise fields.fault(key, "is missing or empty")
        if len(set(tokens)) != len(tokens):
            first: dict[str, int] = {}
            again = next(i for i, token in enumerate(tokens) if first.setdefault(token, i) != i)
            name = tokens[again]
            raise fields.fault(f"{key}[{again}]", f"{name[:80]!r} is id {first[name]} already")
        types = _parallel(fields, "ggml.token_type", int, len(tokens))
        return cls(tokens, types or [NORMAL] * len(tokens))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Name -> id, less the rows a converter padded the table with."""
        return {
            token: i
            for i, (token, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if not (kind == UNUSED and _PADDING.fullmatch(token))
        }

    def of_type(self, *kinds: int) -> Iterator[str]:
        """The names of these types, by id."""
        return (t for t, kind in zip(self.tokens, self.types, strict=True) if kind in kinds)


def read_metadata(
    metadata: Mapping[str, Any], path: Path
) -> tuple[tokenizers.Tokenizer, SpecialTokens]:
    """The vocabulary and its special tokens; raises ModelFileError, UnsupportedModelError."""
    fields = Fields(metadata, path, "tokenizer.")
    vocabulary = Vocabulary.read(fields)
    model = fields.text("ggml.model")
    match model:
        case Kind.GPT2:
            backend, adds_bos = _byte_level(fields, vocabulary)
        case Kind.LLAMA:
            backend, adds_bos = _sentence_piece(fields, vocabulary), True
        case _:
            raise UnsupportedModelError(
                f"{path}: no support for the tokenizer '{model}' (tokenizer.ggml.model); "
                f"known: {', '.join(Kind)}."
            )
    _add_tokens(backend, vocabulary)
    return backend, _special_tokens(fields, vocabulary, adds_bos)


def _byte_level(fields: Fields, vocabulary: Vocabulary) -> tuple[tokenizers.Tokenizer, bool]:
    """BPE over bytes, and whether such a model wants a bos id where its file does not say."""
    cut = pre_tokenizer(fields.text("ggml.pre", "default"), str(fields.path))
    key = "ggml.merges"
    merges = [tuple(merge.split(" ")) for merge in _array(fields, key, str) or ()]
    for index, merge in enumerate(merges):
        if len(merge) != 2:
            raise fields.fault(f"{key}[{index}]", "is not two tokens with a blank between them")
    backend = _bpe(fields, key, vocabulary.ids, merges, ignore_merges=cut.ignore_merges)
    if (normalizer := cut.normalizer()) is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = cut.build()
    backend.decoder = decoders.ByteLevel()
    return backend, cut.add_bos


def _sentence_piece(fields: Fields, vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """SentencePiece's BPE: a better score merges first; bytes where no piece fits."""
    key = "ggml.scores"
    scores = _parallel(fields, key, float, len(vocabulary.tokens))
    if scores is None:
        raise fields.fault(key, "is missing")
    merges = list(_merges_by_score(vocabulary, scores))
    unknown = _id(fields, "unknown", vocabulary)
    backend = _bpe(
        fields,
        key,
        vocabulary.ids,
        merges,
        unk_token=None if unknown is None else vocabulary.tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    prefix = fields.flag("ggml.add_space_prefix", True)
    prepend = [normalizers.Prepend("▁")] if prefix else []
    backend.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    return backend


def _merges_by_score(vocabulary: Vocabulary, scores: list[float]) -> Iterator[tuple[str, str]]:
    """Each way to put a piece together from two, best piece first."""
    tokens, types = vocabulary.tokens, vocabulary.types
    pieces = {token: i for i, token in enumerate(tokens) if types[i] == NORMAL}
    for i in sorted(pieces.values(), key=lambda i: (-scores[i], i)):
        piece = tokens[i]
        pairs = [
            (pieces[left], pieces[right])
            for cut in range(1, min(len(piece), _LONGEST_PIECE))
            if (left := piece[:cut]) in pieces and (right := piece[cut:]) in pieces
        ]
        for left_id, right_id in sorted(pairs):
            yield tokens[left_id], tokens[right_id]


def _bpe(
    fields: Fields, key: str, vocab: dict[str, int], merges: list[Any], **options: Any
) -> tokenizers.Tokenizer:
    """The library's BPE; what it says against the merges is a fault of the file."""
    try:
        return tokenizers.Tokenizer(models.BPE(vocab, merges, **options))
    except Exception as error:  # the library raises bare Exception
        raise fields.fault(key, str(error)) from error


def _add_tokens(backend: tokenizers.Tokenizer, vocabulary: Vocabulary) -> None:
    """Control tokens are special; the user's own are found in any text."""
    control = vocabulary.of_type(CONTROL, UNKNOWN)
    backend.add_special_tokens([AddedToken(t, normalized=False) for t in control if t])
    own = vocabulary.of_type(USER_DEFINED)
    backend.add_tokens([AddedToken(t, normalized=False) for t in own if t])


def _special_tokens(fields: Fields, vocabulary: Vocabulary, adds_bos: bool) -> SpecialTokens:
    eos_id, *others = [_id(fields, name, vocabulary) for name in ("eos", "eot", "eom")]
    control = set(vocabulary.of_type(CONTROL))
    ids = vocabulary.ids
    named = {ids[end] for end in _ENDS if end in control}
    return SpecialTokens(
        path=fields.path,
        bos_id=_id(fields, "bos", vocabulary),
        eos_id=eos_id,
        eos_ids=frozenset(i for i in (eos_id, *others, *named) if i is not None),
        add_bos=fields.flag("ggml.add_bos_token", adds_bos),
        chat_template=fields.text("chat_template") if "chat_template" in fields else None,
    )


def _id(fields: Fields, name: str, vocabulary: Vocabulary) -> int | None:
    """The id of a special token, or None where the file names none."""
    key = f"ggml.{name}_token_id"
    if key not in fields:
        return None
    return fields.integer(key, low=0, high=len(vocabulary.tokens) - 1)


def _parallel(fields: Fields, key: str, kind: type[T], count: int) -> list[T] | None:
    """An array with one item for each token."""
    items = _array(fields, key, kind)
    if items is not None and len(items) != count:
        raise fields.fault(key, f"has {len(items)} items for {count} tokens")
    return items


def _array(fields: Fields, key: str, kind: type[T]) -> list[T] | None:
    """An array whose items all have that type, or None where the key is absent."""
    value = fields.values.get(fields.prefix + key)
    if value is not None and not isinstance(value, list):
        raise fields.fault(key, f"is {type(value).__name__}, not an array")
    for index, item in enumerate(value or ()):
        if type(item) is not kind:
            found, wanted = type(item).__name__, kind.__name__
            raise fields.fault(f"{key}[{index}]", f"is {found}, not {wanted}")
    return value
