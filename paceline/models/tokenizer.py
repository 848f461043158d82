"""Text <-> ids, from a Hugging Face folder or from the key-values of a GGUF file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from paceline.errors import RequestError, VocabularyError
from paceline.models import gguf_vocab, hf_vocab
from paceline.models.pieces import Pieces
from paceline.models.special_tokens import SpecialTokens


class Tokenizer:
    """Encodes and decodes; immutable, and safe to share among threads."""

    def __init__(self, backend: tokenizers.Tokenizer, special: SpecialTokens) -> None:
        """Raises UnsupportedModelError where the backend's ids have no text of their own."""
        backend.no_truncation()
        backend.no_padding()
        self.special = special
        self._backend = backend
        self._plain = _blind_to_special_tokens(backend)
        self._pieces = Pieces.of_decoder(backend.decoder, str(special.path))
        added = backend.get_added_tokens_decoder()
        self._silent = frozenset(i for i, token in added.items() if token.special)
        self.vocab_size = 1 + max(self._ids().values(), default=-1)
        """One more than the last id that has a name; a model may have more rows."""

    @classmethod
    def from_hf_folder(cls, path: Path) -> Tokenizer:
        """Read tokenizer.json and what its neighbours say of special tokens.

        Raises:
            ModelFileError: a file is missing, damaged or hostile.
            UnsupportedModelError: a kind of decoder Paceline does not know.
        """
        return cls(*hf_vocab.read_folder(path))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], path: Path) -> Tokenizer:
        """Build from the key-values of a GGUF file; `path` is for errors alone.

        Raises:
            ModelFileError: a value is missing, damaged or hostile.
            UnsupportedModelError: a kind of tokenizer Paceline does not know.
        """
        return cls(*gguf_vocab.read_metadata(metadata, path))

    @property
    def bos_id(self) -> int | None:
        """The id that starts a text."""
        return self.special.bos_id

    @property
    def eos_id(self) -> int | None:
        """The one id that templates know as the end of a text."""
        return self.special.eos_id

    @property
    def eos_ids(self) -> frozenset[int]:
        """Every id that ends a text."""
        return self.special.eos_ids

    @property
    def chat_template(self) -> str | None:
        """Jinja source, or None for a model that does not chat."""
        return self.special.chat_template

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that steer a model and are no text, such as the end of a turn."""
        return self._silent

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """The ids of `text`.

        `add_special` puts the bos id first where the model wants it, and never twice; it is not
        for what `render_chat` wrote, since whether a chat has a bos is the template's to say.
        `parse_special` reads "<|eos|>" and its like as the special token; else it is plain text,
        as befits what a user typed.

        Raises:
            RequestError: the text holds half a surrogate pair, which has no UTF-8.
        """
        backend = self._backend if parse_special else self._plain
        try:
            # A batch, for `encode` would keep every other thread waiting.
            (encoding,) = backend.encode_batch_fast([text], add_special_tokens=False)
        except (UnicodeEncodeError, TypeError) as error:
            raise RequestError("The text holds half a surrogate pair; send valid text.") from error
        ids: list[int] = encoding.ids
        bos = self.special.bos_id
        if add_special and self.special.add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """The text of `ids`; ids without a name have none, bytes that are no UTF-8 are U+FFFD."""
        pieces = (self._bytes(i, skip_special) for i in ids)
        return self._pieces.reader().read(pieces, final=True)

    def stream(self, skip_special: bool = True) -> TextStream:
        """A decoder for ids that come one at a time."""
        return TextStream(self, skip_special)

    def id_to_token(self, i: int) -> str | None:
        """The name of an id, as in the vocabulary; None where it has none."""
        return self._backend.id_to_token(i) if 0 <= i < self.vocab_size else None

    def token_bytes(self, i: int) -> bytes:
        """The bytes an id adds to a text, a special one its name; none where it has no name."""
        return self._bytes(i, skip_special=False)

    def token_to_id(self, token: str) -> int | None:
        """The id of a name of the vocabulary."""
        return self._backend.token_to_id(token)

    def names(self) -> dict[int, str]:
        """Every id that has a name."""
        return {i: token for token, i in self._ids().items()}

    def _ids(self) -> dict[str, int]:
        return self._backend.get_vocab(with_added_tokens=True)

    def _bytes(self, i: int, skip_special: bool) -> bytes:
        token = None if skip_special and i in self._silent else self.id_to_token(i)
        return b"" if token is None else self._pieces.to_bytes(token)


class TextStream:
    """Text as its ids arrive: the pushes and the flush, joined, are `decode` of all the ids.

    A push costs the length of one token, whatever came before.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special: bool) -> None:
        self._bytes, self._skip_special = tokenizer._bytes, skip_special
        self._reader = tokenizer._pieces.reader()

    def push(self, i: int) -> str:
        """The text that became final; empty in the middle of a character."""
        return self._reader.read([self._bytes(i, self._skip_special)], final=False)

    def flush(self) -> str:
        """What is left at the end: U+FFFD for a character that never got complete, else empty."""
        return self._reader.read([], final=True)


def check_same_vocabulary(
    target: Tokenizer, draft: Tokenizer, target_size: int, draft_size: int
) -> None:
    """See that each id means the same string to both models.

    The sizes are the rows of each model's logits. Rows past the last name are padding and may
    differ in number, as 151936 and 152064 of one family do; a draft must neither propose nor be
    asked to read an id beyond the smaller size.

    Raises:
        VocabularyError: an id differs, or has a name but no row.
    """
    theirs, ours = target.names(), draft.names()
    differing = [i for i in theirs.keys() | ours.keys() if theirs.get(i) != ours.get(i)]
    if differing:
        i = min(differing)
        raise VocabularyError(
            f"The draft has another vocabulary: id {i} is {_name(theirs.get(i))} to the target "
            f"and {_name(ours.get(i))} to the draft; choose a draft of the target's family, or"
            " draft what both have, by the option vocabulary=intersect."
        )
    for owner, size in (("target", target_size), ("draft", draft_size)):
        if size < target.vocab_size:
            raise VocabularyError(
                f"The {owner} has {size} rows, too few for id {target.vocab_size - 1}, "
                f"{_name(theirs[target.vocab_size - 1])}; its files do not belong together."
            )


def _name(token: str | None) -> str:
    return "unnamed" if token is None else repr(token)


def _blind_to_special_tokens(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """A tokenizer over the same model, to which special tokens are plain text."""
    plain = tokenizers.Tokenizer(backend.model)
    for part in ("normalizer", "pre_tokenizer"):
        if (value := getattr(backend, part)) is not None:
            setattr(plain, part, value)
    added = sorted(backend.get_added_tokens_decoder().items())
    plain.add_tokens([token for _, token in added])
    plain.encode_special_tokens = True
    return plain
