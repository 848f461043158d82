"""The tokenizer of a Hugging Face folder: tokenizer.json, and what its neighbours add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from paceline.errors import ModelFileError
from paceline.models.special_tokens import SpecialTokens


def read_folder(folder: Path) -> tuple[tokenizers.Tokenizer, SpecialTokens]:
    """The vocabulary and its special tokens; raises ModelFileError."""
    backend = _read_backend(folder / "tokenizer.json")
    config = _read_object(folder / "tokenizer_config.json")
    bos_id = _token_id(backend, config, "bos_token", folder)
    eos_id = _token_id(backend, config, "eos_token", folder)
    eos_ids = {eos_id} if eos_id is not None else set()
    for name in ("generation_config.json", "config.json"):
        eos_ids |= _eos_ids(folder / name)
    leading = _leading_id(backend)
    bos_id = leading if bos_id is None else bos_id
    add_bos = config.get("add_bos_token")
    return backend, SpecialTokens(
        path=folder,
        bos_id=bos_id,
        eos_id=eos_id,
        eos_ids=frozenset(eos_ids),
        add_bos=add_bos if isinstance(add_bos, bool) else leading is not None,
        chat_template=_chat_template(folder, config),
    )


def _read_backend(path: Path) -> tokenizers.Tokenizer:
    if not path.is_file():
        raise ModelFileError(
            path.parent,
            "tokenizer.json",
            "is missing; write it with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        )
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ModelFileError(path, "tokenizer", str(error)) from error


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON object; empty where the file is absent."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(path, "JSON", str(error)) from error
    if not isinstance(value, dict):
        raise ModelFileError(path, "JSON", "is no object")
    return value


def _token_id(
    backend: tokenizers.Tokenizer, config: dict[str, Any], field: str, folder: Path
) -> int | None:
    """The id of a special token, written as a string or as an object with its content."""
    value = config.get(field)
    if isinstance(value, dict):
        value = value.get("content")
    if value is None:
        return None
    found = backend.token_to_id(value) if isinstance(value, str) else None
    if found is None:
        raise ModelFileError(
            folder / "tokenizer_config.json", field, f"{value!r} is no token of tokenizer.json"
        )
    return found


def _eos_ids(path: Path) -> set[int]:
    """eos_token_id: nothing, an id or a list of ids."""
    value = _read_object(path).get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(i) is not int or i < 0 for i in ids):
        raise ModelFileError(path, "eos_token_id", f"{value!r} is no id and no list of ids")
    return set(ids)


def _leading_id(backend: tokenizers.Tokenizer) -> int | None:
    """The id that the post-processor puts before a text."""
    bare = backend.encode("a", add_special_tokens=False).ids
    dressed = backend.encode("a").ids
    return dressed[0] if dressed[: len(bare)] != bare else None


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    """A file of its own comes first, then the config's one template or the default of several."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(path, "text", str(error)) from error
    value = config.get("chat_template")
    if isinstance(value, list):
        named = {t.get("name"): t.get("template") for t in value if isinstance(t, dict)}
        value = named.get("default")
    if value is None or isinstance(value, str):
        return value
    raise ModelFileError(folder / "tokenizer_config.json", "chat_template", "is no text")
