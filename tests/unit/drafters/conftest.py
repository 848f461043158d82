"""Contexts for drafters that look at tokens only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from paceline.chooser import Keyed
from paceline.drafters import DraftContext, Observation
from paceline.sampling import History
from paceline.tree import NO_DRAFT
from paceline.types import SamplingParams


@pytest.fixture
def context() -> Callable[..., DraftContext]:
    """Build a context; rule and cache blocks are absent, so touching them fails."""

    def make(tokens: Sequence[int], prompt_tokens: int = 1, request_id: str = "a") -> DraftContext:
        return DraftContext(
            request_id=request_id,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            params=SamplingParams(),
            rule=SimpleNamespace(),
            chooser=Keyed(0),
            table=SimpleNamespace(),
            preemptions=0,
            history=History(tokens, prompt_tokens),
        )

    return make


@pytest.fixture
def finish() -> Callable[[DraftContext], Observation]:
    """The observation of a request's last pass."""

    def make(context: DraftContext) -> Observation:
        return Observation(
            start=0,
            context=replace(context),
            draft=NO_DRAFT,
            path=(),
            committed=(context.tokens[-1],),
            finished=True,
            hidden={},
        )

    return make


class Watched(list):
    """A list of tokens that counts how many of them are read."""

    reads = 0

    def __getitem__(self, index):
        found = super().__getitem__(index)
        self.reads += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self):
        for token in super().__iter__():
            self.reads += 1
            yield token


@pytest.fixture
def watched() -> type[Watched]:
    """The list that counts its reads."""
    return Watched
