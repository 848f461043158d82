"""Paceline among the contenders: its one automatic configuration, and plain decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from paceline.bench.decoding import generate
from paceline.bench.peers.race import Contender, Decode, Said
from paceline.bench.steered import steered
from paceline.engine import LLM
from paceline.engine.steering import Steering
from paceline.types import AUTO, SamplingParams, Speculation

ENGINE, AUTOMATIC, PLAIN = "Paceline", "automatic", "plain"


class Own:
    """One way of drafting; its controller starts with the first turn and keeps what it learns."""

    def __init__(self, llm: LLM, params: SamplingParams, speculation: Speculation) -> None:
        self._llm, self._params, self._speculation = llm, params, speculation
        self._steering: Steering | None = None

    @contextmanager
    def start(self) -> Iterator[Decode]:
        """The model is loaded; the controller takes the wheel."""
        with steered(self._llm, self._steering) as self._steering:
            yield self.decode

    def decode(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[Said]:
        """Their continuations, without any memory of earlier texts."""
        params = replace(self._params, max_tokens=tokens)
        outputs = generate(self._llm, prompts, params, self._speculation)
        return [
            Said(len(one.token_ids), 1e3 * one.timing.decode_s, one.token_ids) for one in outputs
        ]


def contenders(llm: LLM, params: SamplingParams) -> list[Contender]:
    """The two; `params` say all but the length."""
    ways = {AUTOMATIC: Speculation(k=AUTO), PLAIN: Speculation(k=0)}
    return [
        Contender(ENGINE, way, partial(Own.start, Own(llm, params, speculation)), learns=True)
        for way, speculation in ways.items()
    ]
