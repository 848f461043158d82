"""A drafter that asks for hidden states observes those of its own request's rows, prompts too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from paceline.drafters import DraftContext, Host, Needs, Observation, register
from paceline.engine import Engine
from paceline.tree import Draft
from paceline.types import Speculation
from tests.engines import Forest, engine, request, run

SEEN: list[Observation] = []


@dataclass
class LiveWatcher:
    """Drafts a forest and checks each observation while its context is valid."""

    forest: Forest = field(default_factory=Forest)

    def propose(self, contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        return [self.forest.draft(ctx, k) for ctx, k in zip(contexts, budgets, strict=True)]

    def observe(self, observations: Sequence[Observation]) -> None:
        for seen in observations:
            SEEN.append(seen)
            assert set(seen.hidden) == {0}
            assert torch.equal(seen.hidden[0], rows(seen))

    def release(self, request_id: str) -> None:
        pass


def rows(seen: Observation) -> torch.Tensor:
    """hidden[R, 2] of the oracle: the length of each row's path, and its token."""
    tree, tokens, start = seen.draft.tree, seen.context.tokens, seen.start
    if seen.committed:
        run = tokens[start : len(tokens) - len(seen.committed)]
    else:
        run = tokens[start : start + len(seen.hidden[0])]
    lengths = [start + row + 1 for row in range(len(run))]
    lengths += [start + len(run) + depth for depth in tree.depths[1:]]
    pairs = list(zip(lengths, (*run, *tree.tokens), strict=True))
    return torch.tensor(pairs, dtype=torch.float32)


def states_seen(observations: Sequence[Observation]) -> list[int]:
    """Positions of the request's tokens whose hidden states came, in the order they came in."""
    return [
        position
        for seen in observations
        for position in range(
            seen.start, seen.start + len(seen.hidden[0]) - len(seen.draft) + len(seen.path)
        )
    ]


@register("test_watcher")
@dataclass(frozen=True)
class Watcher:
    k: int = 5
    needs = Needs(trees=True, hidden_layers=(0,))

    def build(self, host: Host) -> LiveWatcher:
        return LiveWatcher()


@pytest.fixture
def watching() -> Engine:
    SEEN.clear()
    return engine("test_watcher", "test_forest", max_rows=20)


def test_each_request_of_a_batch_observes_its_own_rows(watching: Engine) -> None:
    """Among prompts in chunks, requests without drafts and requests of another drafter."""
    prompts = {"a": "abc", "b": "fedcbafedcbafedcbafedcba", "c": "deadbeef"}
    outputs = run(
        watching,
        *(request(name, prompt, temperature=0.0) for name, prompt in prompts.items()),
        request("plain", "abcd", Speculation(k=0), temperature=0.0),
        request("other", "fab", Speculation(drafter="test_forest"), temperature=0.0),
    )
    assert {seen.context.request_id for seen in SEEN} == {"a", "b", "c", "plain"}
    for output in outputs[:4]:
        own = [seen for seen in SEEN if seen.context.request_id == output.request_id]
        assert sum(len(seen.committed) for seen in own) == len(output.token_ids)
        assert states_seen(own) == list(range(len(own[-1].context.tokens) - 1))
    assert {len(seen.draft) for seen in SEEN} >= {0, 1, 2, 3, 4, 5}


def test_no_layer_is_asked_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = engine("test_forest")
    found: list[dict[int, torch.Tensor]] = []
    live = plain._drafters["test_forest"].live
    monkeypatch.setattr(
        type(live), "observe", lambda _, batch: found.extend(seen.hidden for seen in batch)
    )
    run(plain, request("r", temperature=0.0))
    assert found
    assert not any(found)
