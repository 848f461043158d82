"""Grammars over the embedded model's vocabulary, and random outputs that they allow."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import paceline.models
from paceline.models import Tokenizer
from paceline.sampling.grammar import Grammars, Matcher
from paceline.structured import StructuredOutput
from paceline.tree import TokenTree

TOKENIZER = Tokenizer.from_hf_folder(Path(paceline.models.__file__).parent / "mini" / "target")
NAMED = TOKENIZER.vocab_size
V = NAMED + 5
"""The last five ids only pad the logits."""
EOS = min(TOKENIZER.eos_ids)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["alpha", "bêta 😀", None, 3]},
        "on": {"type": "boolean"},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "integer", "minimum": -3, "maximum": 40},
        },
    },
    "required": ["name", "kind", "parts"],
    "additionalProperties": False,
}
GBNF = 'root ::= pair ("," pair){0,2}\npair ::= [a-cé] "=" ("yes" | "no")'
LARK = 'start: "(" item ("; " item)* ")"\nitem: WORD | start\nWORD: /[a-z]{1,4}ß?/'

SPECS = {
    "schema": StructuredOutput(json_schema=SCHEMA, disable_any_whitespace=True),
    "regex": StructuredOutput(regex=r"([0-9]{2,4}-)?[xyzäöü€😀]{1,5}(\.[A-F]+)?"),
    "choice": StructuredOutput(choice=("yes", "yes, but", 'nö\n\t"quoted"', "😀")),
    "gbnf": StructuredOutput(grammar=GBNF),
    "lark": StructuredOutput(grammar=LARK),
}


@dataclass
class Fake:
    """A tokenizer whose `encode` does to the text what normalisers do."""

    change: Callable[[str], str]
    special_ids: frozenset[int] = TOKENIZER.special_ids

    def token_bytes(self, i: int) -> bytes:
        return TOKENIZER.token_bytes(i)

    def encode(self, text: str) -> list[int]:
        return TOKENIZER.encode(self.change(text))


@cache
def grammars(*eos_ids: int) -> Grammars:
    return Grammars(TOKENIZER, V, eos_ids or (EOS,))


def matcher(spec: StructuredOutput | str, history: tuple[int, ...] = ()) -> Matcher:
    return grammars().compile(SPECS[spec] if isinstance(spec, str) else spec).matcher(history)


def allowed(matcher: Matcher, path: tuple[int, ...] = ()) -> list[int]:
    ids: list[int] = matcher.mask_for(path).nonzero().flatten().tolist()
    return ids


def walk(matcher: Matcher, rng: random.Random, limit: int = 60) -> list[int]:
    """Advance along random allowed ids, and end where that is allowed, or after `limit`."""
    tokens: list[int] = []
    while len(tokens) < limit:
        ids = allowed(matcher)
        if EOS in ids and (len(ids) == 1 or rng.random() < 0.4):
            break
        tokens.append(rng.choice([i for i in ids if i != EOS]))
        matcher.advance(tokens[-1:])
    return tokens


def text_of(tokens: list[int]) -> str:
    return b"".join(map(TOKENIZER.token_bytes, tokens)).decode()


def random_tree(start: Matcher, rng: random.Random, nodes: int) -> TokenTree:
    """A tree of mostly allowed tokens; some are not, some end the text, some lie below such."""
    tokens: list[int] = []
    parents: list[int] = []
    paths: list[tuple[int, ...]] = [()]
    for _ in range(nodes):
        parent = rng.randrange(len(paths))
        ids = allowed(start, paths[parent])
        token = rng.choice(ids) if rng.random() < 0.8 else rng.randrange(V)
        if (parent, token) not in set(zip(parents, tokens, strict=True)):
            tokens.append(token)
            parents.append(parent)
            paths.append((*paths[parent], token))
    return TokenTree(tuple(tokens), tuple(parents))
