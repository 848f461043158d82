"""Prompts from the command line, from standard input and from files of many."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from paceline.models import Message


@dataclass(frozen=True)
class Prompt:
    """What is said to the model, turn by turn: the messages that each turn adds."""

    turns: tuple[tuple[Message, ...], ...]
    where: str = field(default="", compare=False)
    """The file and line it comes from."""

    @classmethod
    def of_text(cls, text: str, where: str = "") -> Prompt:
        """One turn with one user message."""
        return cls(((user(text),),), where)

    @contextmanager
    def named(self) -> Iterator[None]:
        """RequestErrors say where this prompt comes from."""
        try:
            yield
        except RequestError as error:
            raise RequestError(f"{self.where}: {error}" if self.where else str(error)) from error

    @property
    def text(self) -> str:
        """The first turn as plain text, for a model without a chat template.

        Raises:
            RequestError: it is more than one user message.
        """
        (message, *rest) = self.turns[0]
        if rest or message["role"] != "user":
            raise RequestError(
                "These messages need a chat template and the model has none; give text instead."
            )
        return str(message["content"])


def user(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def compose(argument: str | None, file: Path | None) -> Prompt:
    """Join what came by `file`, or else by standard input, with the argument after it.

    Raises:
        RequestError: nothing came, or only blanks.
    """
    parts = []
    if file is not None:
        parts.append(read_text(file))
    elif not sys.stdin.isatty():
        parts.append(decode(sys.stdin.buffer.read(), "Standard input"))
    if argument is not None:
        parts.append(argument)
    text = "".join(
        f"{part}\n" if not part.endswith("\n") else part for part in parts[:-1] if part
    ) + "".join(parts[-1:])
    if not text.strip():
        raise RequestError(
            "The prompt is empty; give one as an argument, by --prompt-file or on standard input."
        )
    return Prompt.of_text(text)


def read_prompts(path: Path, limit: int | None = None) -> list[Prompt]:
    """Read the prompts of a text file (one a line) or a .jsonl file (prompt, turns or messages).

    Raises:
        ConfigError: the file, or a line of it, is none of these.
    """
    read = parse_record if ".jsonl" in path.suffixes else parse_line
    prompts = list(islice((read(line, where) for line, where in lines_of(path)), limit))
    if not prompts:
        raise ConfigError(f"{path} holds no prompt.")
    return prompts


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Each line that is not blank, and where it stands; raises ConfigError."""
    # Not splitlines(): JSON strings may hold the other line separators of Unicode.
    for number, line in enumerate(read_text(path).replace("\r\n", "\n").split("\n"), start=1):
        if line.strip():
            yield line, f"{path} line {number}"


def sizes_of(text: str) -> list[int]:
    """1,4,16 as numbers of at least 1; raises ConfigError."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise ConfigError(f"Sizes are numbers from 1, like 1,4,16, not '{text:.80}'.")
    return sizes


def parse_line(line: str, where: str) -> Prompt:
    """A line of text."""
    return Prompt.of_text(line, where)


def parse_record(line: str, where: str) -> Prompt:
    """A JSON object with `prompt` (text), `turns` (texts) or `messages` (role and content)."""
    match parse_json(line, where):
        case {"prompt": str(text)}:
            if not text.strip():
                raise ConfigError(f"{where}: the prompt is empty.")
            return Prompt.of_text(text, where)
        case {"turns": [str(), *_] as turns} if all(isinstance(turn, str) for turn in turns):
            return Prompt(tuple((user(turn),) for turn in turns), where)
        case {"messages": [dict(), *_] as messages}:
            return Prompt((tuple(check_messages(messages, where)),), where)
    raise ConfigError(
        f"{where} needs a 'prompt' (text), 'turns' (a list of texts) or 'messages' "
        "(a list of objects with role and content)."
    )


def parse_json(line: str, where: str) -> Any:
    """What the line says; raises ConfigError."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{where} nests too many brackets to be read.") from error


def check_messages(messages: list[Any], where: str) -> Iterator[Message]:
    """Each message, if it has text for role and content."""
    for message in messages:
        match message:
            case {"role": str(role), "content": str(content)}:
                yield {"role": role, "content": content}
            case _:
                raise ConfigError(f"{where}: every message needs a role and a content, both text.")


def read_text(path: Path) -> str:
    """A text file, unpacked where its name ends in .gz."""
    try:
        data = path.read_bytes()
        return decode(gzip.decompress(data) if path.suffix == ".gz" else data, str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} is no whole gzip file: {error}.") from error
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error


def decode(data: bytes, where: str) -> str:
    """UTF-8 text, without the byte order mark that some editors put before it."""
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is not UTF-8 text (byte {error.start}).") from error
