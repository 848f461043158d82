"""Reading the scalars, strings and arrays of a GGUF header, none of which is to be trusted."""

from __future__ import annotations

import struct
from typing import Any

from paceline.errors import ModelFileError
from paceline.models.mapped_file import MappedFile

MAX_STRING_BYTES = 1 << 24
MAX_ITEMS = 1 << 23
"""Items of all arrays of a header together; a vocabulary of 2²⁰ ids and its merges fit."""
MAX_DEPTH = 4
"""Arrays within arrays."""

STRING, ARRAY, BOOL = 8, 9, 7
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
"""Layouts by GGUF's number of the type."""
_LEAST_BYTES = {STRING: 8, ARRAY: 12} | {kind: struct.calcsize(s) for kind, s in _SCALARS.items()}


class HeaderReader:
    """A cursor over a header. Every reader checks what it takes against what the file holds.

    Raises:
        ModelFileError: naming the file and the field that was being read.
    """

    def __init__(self, mapped: MappedFile) -> None:
        self.mapped = mapped
        self.position = 0
        self.field = "header"
        """What is being read now, for errors."""
        self._items_left = MAX_ITEMS

    @property
    def bytes_left(self) -> int:
        """Bytes between the cursor and the end of the file."""
        return self.mapped.size_bytes - self.position

    def fault(self, problem: str) -> ModelFileError:
        """The error that names the file and the field."""
        return ModelFileError(self.mapped.path, self.field, problem)

    def take(self, size_bytes: int) -> bytes:
        """The next bytes."""
        if size_bytes > self.bytes_left:
            raise self.fault(f"the file ends within it, at byte {self.mapped.size_bytes}")
        taken = self.mapped.read(self.position, size_bytes)
        self.position += size_bytes
        return taken

    def scalar(self, layout: str) -> Any:
        """One number, by its struct layout."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def count(self, what: str, least_bytes: int, limit: int) -> int:
        """A number of things to come, each of at least so many bytes."""
        value: int = self.scalar("<Q")
        if value > limit or value * least_bytes > self.bytes_left:
            raise self.fault(f"{value} {what} are more than the file can hold or than {limit}")
        return value

    def string(self, limit: int = MAX_STRING_BYTES) -> str:
        """A length and so many bytes of UTF-8."""
        try:
            return self.take(self.count("bytes of text", 1, limit)).decode()
        except UnicodeDecodeError as error:
            raise self.fault(f"is not UTF-8: {error.reason}") from error

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value of a type of GGUF's."""
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self._array(depth + 1)
        if kind not in _SCALARS:
            raise self.fault(f"type {kind} is unknown")
        value = self.scalar(_SCALARS[kind])
        return self._boolean(value) if kind == BOOL else value

    def _array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise self.fault(f"arrays are nested deeper than {MAX_DEPTH}")
        kind = self.scalar("<I")
        if kind not in _LEAST_BYTES:
            raise self.fault(f"its items have the unknown type {kind}")
        count = self.count("items", _LEAST_BYTES[kind], self._items_left)
        self._items_left -= count
        if kind == STRING:
            return self._strings(count)
        if kind == ARRAY:
            return [self.value(kind, depth) for _ in range(count)]
        layout = _SCALARS[kind]
        numbers = struct.unpack(f"<{count}{layout[1]}", self.take(count * struct.calcsize(layout)))
        return [self._boolean(n) for n in numbers] if kind == BOOL else list(numbers)

    def _strings(self, count: int) -> list[str]:
        """So many strings; a vocabulary has 10⁵, so each is read with few calls."""
        read, size, texts = self.mapped.read, self.mapped.size_bytes, list[str]()
        for _ in range(count):
            start = self.position + 8
            end = start + int.from_bytes(read(self.position, 8), "little")
            if end > min(size, start + MAX_STRING_BYTES):
                return [*texts, self.string()]  # which raises
            try:
                texts.append(read(start, end - start).decode())
            except UnicodeDecodeError as error:
                raise self.fault(f"is not UTF-8: {error.reason}") from error
            self.position = end
        return texts

    def _boolean(self, value: int) -> bool:
        if value > 1:
            raise self.fault(f"{value} is no boolean")
        return bool(value)
