"""The bytes each id stands for, so that text can be joined, and streamed, without a decoder's help.

The decoders of language models turn each token into bytes on its own; the text is those bytes read
as UTF-8, less a leading blank that the encoder put there.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paceline.errors import UnsupportedModelError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SILENT = {"ByteFallback", "Fuse", "Strip", "ByteLevel"}


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_alphabet()


@dataclass(frozen=True)
class Pieces:
    """How the string of one token becomes bytes."""

    byte_level: bool = False
    byte_fallback: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    strip: tuple[str, int] = (" ", 0)
    """A character, and how many of it the start of a text loses."""

    @classmethod
    def of_decoder(cls, decoder: Any, where: str = "The model") -> Pieces:
        """Read a decoder of the `tokenizers` library.

        Raises:
            UnsupportedModelError: another kind of decoder, or none; names `where` it stands.
        """
        if decoder is None:
            raise UnsupportedModelError(
                f"{where}: the tokenizer names no decoder, so its ids have no text."
            )
        steps = _flatten(json.loads(decoder.__getstate__()))
        kinds = {step["type"] for step in steps}
        replacements, strip = [], (" ", 0)
        for step in steps:
            match step:
                case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
                    replacements.append((old, new))
                case {"type": "Strip", "content": str(char), "start": int(start), "stop": 0}:
                    strip = (char, start)
                case {"type": "Metaspace", "replacement": str(mark), "prepend_scheme": scheme}:
                    replacements.append((mark, " "))
                    strip = (" ", 0 if scheme == "never" else 1)
                case {"type": str(kind)} if kind in _SILENT and kind != "Strip":
                    pass
                case _:
                    raise UnsupportedModelError(
                        f"{where}: no support for the decoder '{step['type']}'."
                    )
        return cls("ByteLevel" in kinds, "ByteFallback" in kinds, tuple(replacements), strip)

    def to_bytes(self, token: str) -> bytes:
        """The bytes of one token's string."""
        if self.byte_level:
            try:
                return bytes([_BYTE_OF[char] for char in token])
            except KeyError:  # an added token, which is plain text
                return token.encode()
        if self.byte_fallback and (match := _BYTE_TOKEN.fullmatch(token)):
            return bytes.fromhex(match[1])
        for old, new in self.replacements:
            token = token.replace(old, new)
        return token.encode()

    def reader(self) -> PieceReader:
        """A reader for one text."""
        return PieceReader(*self.strip)


class PieceReader:
    """Bytes in, text out: never half a character, and bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, strip_char: str, strip_count: int) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._char, self._left = strip_char, strip_count

    def read(self, pieces: Iterable[bytes], *, final: bool) -> str:
        """The text that these bytes complete; `final` ends the text."""
        text = self._utf8.decode(b"".join(pieces), final)
        while self._left and text:
            if not text.startswith(self._char):
                self._left = 0
                break
            text, self._left = text[1:], self._left - 1
        return text


def _flatten(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for inner in decoder["decoders"] for step in _flatten(inner)]
